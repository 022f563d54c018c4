"""The page: one file that asks for nothing, runs one script, and holds names as data only."""

import base64
import hashlib
import json
import re
import time
from html.parser import HTMLParser

import pytest

from bench.workload import cluster as large
from depth import some
from treepool.rfc.times import clock
from treepool.view.html import html
from treepool.view.jobs import Job, Running
from treepool.view.rows import rows
from view.hostile import LARGE, NAMES, cluster


class Page(HTMLParser):
    """The elements of a page, and what its script and style elements hold."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.inside, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs)) if tag in ("script", "style") else None
        if self._open:
            self.inside.append([*self._open, ""])

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.inside[-1][2] += data

    @property
    def data(self):
        return json.loads(next(t for _, a, t in self.inside if a.get("id") == "data"))


def page_of(picture):
    return Page(html(picture, rows(picture)))


@pytest.mark.parametrize("R", some([*map(cluster, NAMES), *LARGE.values()]))
def test_whatever_is_in_R_the_page_has_the_same_elements_and_scripts(picture_of, R):
    plain = page_of(picture_of(cluster("numa")))
    page = page_of(picture_of(R, ["slot=1/core=3"]))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    scripts = [text for tag, attrs, text in page.inside if tag == "script" and not attrs]
    assert scripts == [text for tag, attrs, text in plain.inside if tag == "script" and not attrs]
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)


def test_the_policy_allows_the_one_script_and_style_and_nothing_else(picture_of):
    page = page_of(picture_of("a"))
    (policy,) = [a["content"] for t, a in page.elements if a.get("http-equiv")]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    texts = {tag: text for tag, attrs, text in page.inside if not attrs}
    for rule, tag in (("script-src", "script"), ("style-src", "style")):
        digest = base64.b64encode(hashlib.sha256(texts[tag].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_it_names_no_address_but_its_own_anchors(picture_of):
    text = html(picture_of("a"), rows(picture_of("a")))
    text = text.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which nobody asks for
    assert not re.findall(r"https?:|@import|url\(|//[a-z]+\.", text)
    for _, attrs in Page(text).elements:
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")


@pytest.mark.depth
def test_11136_nodes_with_thousands_of_jobs_are_less_than_two_megabytes(picture_of):
    shapes = ["slot=1/[core=8;gpu=1]", "slot=1/[core=20;gpu=1]", "slot=3/core=5"] * 2000
    picture = picture_of(large(11_136), shapes)
    assert len(html(picture, rows(picture))) < 1_000_000


def test_it_says_whose_jobs_run_until_when_and_what_waits_for_what(picture_of):
    picture = picture_of("a")
    soon = time.time() + 1
    mine = Running(Job("f1", "train", ()), "alice", "train", "RUN", soon, due=soon)
    open_end = Running(Job("f2", "train", ()), "bob", "train", "RUN", soon)
    waits = Running(Job("f3", "<b>", ()), "eve", "<b>", "SCHED", soon, note="2 of 4 free", due=soon)
    page = html(picture, rows(picture), running=[mine, open_end], waiting=[waits], again=5)
    data = Page(page).data
    assert data["owners"] == {"f1": ["alice", clock(soon, soon)], "f2": ["bob", ""]}
    (row,) = data["waiting"]
    assert row == ["f3", "eve", "<b>", clock(soon, soon), "2 of 4 free", clock(soon, soon)]
    assert data["again"] == 5 and "<b>" not in page
