"""The name that the writer of an unknown name probably means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treepool.rfc.quote import did_you_mean, nearest

KNOWN = ("node", "slot", "core", "gpu", "memory", "storage", "l3", "numa", "socket")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        # plurals
        ("cores", "core"),
        # abbreviations, upper case, letters exchanged or missing
        ("mem", "memory"),
        ("GPU", "gpu"),
        ("memroy", "memory"),
        ("soket", "socket"),
        # synonyms
        ("cpu", "core"),
        ("hosts", "node"),
        ("ram", "memory"),
        ("task", "slot"),
        # no similar name
        ("rack", ""),
        ("gpumem", ""),
        ("s", ""),
        ("", ""),
    ],
)
def test_the_nearest_known_name_is_the_one_that_was_meant(name: str, meant: str) -> None:
    assert nearest(name, KNOWN) == meant


def test_a_synonym_is_suggested_only_if_it_is_known_here() -> None:
    assert nearest("package", ("node", "core")) == ""


def test_an_abbreviation_of_two_names_is_neither() -> None:
    assert nearest("soc", ("socket", "social")) == ""


def test_the_question_follows_the_unknown_name() -> None:
    assert did_you_mean("cores", KNOWN) == " (did you mean 'core'?)"
    assert did_you_mean("rack", KNOWN) == ""


@given(st.text(), st.lists(st.text(max_size=40)))
def test_only_known_names_are_suggested(name: str, known: list[str]) -> None:
    assert nearest(name, known) in ("", *known)
