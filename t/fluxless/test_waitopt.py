"""The time of ``flux submit --switches=N@TIME``: Slurm's forms, or a number with a unit."""

from types import SimpleNamespace

import pytest

from treepool import parse_shape
from treepool.flux import joboptions


def options(**given):
    """The job options that what is *given* to flux submit comes to."""
    made = SimpleNamespace(attributes={"system": {}}, resources=parse_shape("slot/core"))
    joboptions.add(given, made)
    return made.attributes["system"]["treepool"]


TIMES = {
    "10": 600, "10:30": 630, "1:00:00": 3600, "1-12": 129_600,
    "0-0:5": 300, "1-0:0:1": 86_401, "90s": 90, "0.5s": 0.5,
}  # fmt: skip

REFUSALS = {
    "1@0": "0 is not a number of seconds above 0 and up to",
    "1@": "'' is not a time such as 10m",
    "1@" + "9" * 5000: "is not a time",
    "": "'' is not a number, such as 1 or 1@10:00",
    "0": "0 is not a number of domains",
}


@pytest.mark.parametrize("time", TIMES)
def test_a_time_is_as_in_slurm_or_has_a_unit(time):
    assert options(switches=f"1@{time}") == {"switches": 1, "wait": TIMES[time]}


@pytest.mark.parametrize("text", REFUSALS, ids=lambda text: text[:9])
def test_a_refusal_names_the_option(text):
    with pytest.raises(ValueError, match=f"--switches: .*{REFUSALS[text]}") as refused:
        options(switches=text)
    assert len(str(refused.value)) < 200
