"""Which scheduler an instance starts, from the files of flux modprobe and a configuration."""

from treepool.flux import schedulers


def files(tmp_path, *texts):
    """A file for each of *texts*."""
    found = []
    for number, text in enumerate(texts):
        found.append(tmp_path / f"{number}.toml")
        found[-1].write_text(text)
    return found


def module(name, provides="sched", **more):
    lines = [f'name = "{name}"', f'provides = ["{provides}"]']
    return "\n".join(["[[modules]]", *lines, *(f"{k} = {v}" for k, v in more.items()), ""])


def test_the_first_is_that_of_the_highest_priority_and_of_equals_the_last(tmp_path):
    first = module("low", priority=40) + module("also", priority=40) + module("kvs", "kvs")
    paths = files(tmp_path, first, module("high", priority=500), module("usual"))
    assert schedulers.installed(paths) == ["high", "usual", "also", "low"]


def test_a_later_file_changes_a_module(tmp_path):
    texts = module("a", priority=40) + module("b", priority=30), "[b]\npriority = 50\n"
    assert schedulers.installed(files(tmp_path, *texts)) == ["b", "a"]


def test_what_cannot_be_read_is_skipped(tmp_path):
    good = module("a")
    paths = files(tmp_path, "modules = 1", "[[modules]]\nname = 3", "= no toml", good)
    assert schedulers.installed([tmp_path / "missing", *paths]) == ["a"]
