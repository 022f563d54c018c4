"""``treepool window``: what is typed becomes a window, and what cannot be is one line."""

import errno
import sys
import types

import attrs
import pytest

from treepool.rfc.windows import WindowEntry

NOW = 1_800_000_000.0


@pytest.fixture
def client(monkeypatch):
    """In the place of an instance: keeps what it is told, and has the windows in ``there``."""
    fake = types.ModuleType("treepool.flux.client")
    fake.there, fake.told, fake.running, fake.taken, fake.refuses = [], [], (), (), None
    fake.ended = []

    def add_window(entry, replaces=False, test=False):
        if fake.refuses:
            raise fake.refuses
        if entry.name in fake.taken:
            raise FileExistsError(errno.EEXIST, "/name: there is a window")
        fake.told.append(entry)
        running = fake.running
        return types.SimpleNamespace(
            hosts=entry.hosts or "n[4-7]", reserved=1, running=running, names=running
        )

    fake.add_window = add_window
    fake.end_at = lambda *told: fake.ended.append(told)
    fake.connected = lambda: None
    fake.windows_now = lambda: fake.there
    fake.ask = lambda handle, name, payload: fake.told.append((name, payload))
    fake.time_of = float
    fake.seconds_of = lambda text: 60.0 * float(text)
    import treepool.flux

    monkeypatch.setitem(sys.modules, "treepool.flux.client", fake)
    monkeypatch.setattr(treepool.flux, "client", fake, raising=False)
    return fake


ADD = ["window", "add", "--hosts=n[0-3]", f"--start={NOW}", "--duration=60"]


def test_what_is_typed_becomes_a_window(treepool, client):
    result = treepool(*ADD, "--name=a", "--user=alice", "--user=7", "--queue=debug")
    assert client.told == [WindowEntry("a", "n[0-3]", NOW, NOW + 3600, ("alice", 7), ("debug",))]
    first, second = result.out.splitlines()
    assert first.startswith("added window a: n[0-3], from ")
    assert first.endswith(", for user alice, user 7, queue debug")
    assert second == "1 reservation of waiting jobs moved out of its way"
    assert (result.status, result.err) == (0, "")


def test_a_name_that_others_took_in_the_meantime_is_passed_over(treepool, client):
    client.taken = {"window1", "window2"}  # the first was not in the list, either
    assert treepool(*ADD).out.startswith("added window window3: ")
    assert [entry.name for entry in client.told] == ["window3"]
    assert treepool(*ADD, "--name=window1").is_one_line_error("argument --name: there is a window")


def test_running_jobs_are_named_in_a_warning_of_one_line(treepool, client):
    client.running = tuple(f"f{i}" for i in range(30))
    result = treepool(*ADD)
    assert result.status == 0
    assert result.err.splitlines() == [
        "treepool window: warning: these jobs may still run when it starts: "
        + " ".join(f"f{i}" for i in range(20))
        + " and 10 more"
    ]


def test_remove_tells_what_it_removed(treepool, client):
    assert treepool("window", "remove", "a").out == "removed window a\n"
    assert client.told == [("window-remove", {"name": "a"})]


@pytest.mark.parametrize(
    "words, said",
    [
        (["change", "datt", "--duration=1"], "there is no window 'datt' (did you mean 'dat'?)"),
        (["change", "dat", "--within=switch"], "argument --within: is for --nodes or --shape"),
        (["add", *ADD[3:], "--nodes=0"], "argument --nodes: must be at least 1"),
        (["add", *ADD[3:], "--nodes=4", "--hosts=n1"], "not allowed with argument"),
        ([*ADD[1:], "--every=month"], "argument --every: 'month' is not day, week, 14d, 2w"),
        ([], "add|change|list|remove"),
        (["add"], "--start"),
        (["add", "--hosts=n0", "--start=1"], "--duration --end"),
        ([*ADD[1:], "--end=3"], "not allowed with argument"),
        ([*ADD[1:], "extra"], "unrecognized arguments: extra"),
        ([*ADD[1:], "--start=soon"], "argument --start: 'soon'"),
        ([*ADD[1:], "--duration=0"], "argument --end: must be later than the start"),
        ([*ADD[1:], "--hosts=n[3-0]"], "argument --hosts: "),
        ([*ADD[1:], "--hosts="], "argument --hosts: must not be empty"),
        ([*ADD[1:], "--name="], "argument --name: "),
        ([*ADD[1:], "--name=a\x1b[0m"], "argument --name: "),
        ([*ADD[1:], "--user=a b"], "argument --user: "),
        ([*ADD[1:], "--user=99999999999"], "argument --user: "),
        ([*ADD[1:], "--queue="], "argument --queue: must not be empty"),
    ],
)
def test_what_cannot_be_is_one_line(treepool, client, words, said):
    there(client)
    status = 1 if "datt" in words else 2
    assert treepool("window", *words).is_one_line_error(said, status=status)
    assert client.told == []


@pytest.mark.parametrize("number, status", [(errno.EINVAL, 1), (errno.EPERM, 1), (errno.ENOSYS, 2)])
def test_what_the_scheduler_says_is_one_line(treepool, client, number, status):
    client.refuses = OSError(number, "no\nsuch thing")
    assert treepool(*ADD).is_one_line_error(r"no\nsuch thing", status=status)


@pytest.mark.parametrize(
    ("place", "option"),
    [
        ("/7/hosts", "--hosts"),
        ("/users/3", "--user"),
        ("/attributes/system/treepool/within", "--within"),
    ],
)
def test_what_the_scheduler_says_of_a_key_is_said_of_its_option(treepool, client, place, option):
    client.refuses = OSError(errno.EINVAL, f"{place}: is wrong: /7")
    assert treepool(*ADD).err == f"treepool window: argument {option}: is wrong: /7\n"


def test_without_flux_one_line_says_so(treepool, without_flux):
    assert treepool("window", "list").is_one_line_error("use flux treepool", status=2)


def there(client, **more):
    entry = WindowEntry("dat", "n[0-3]", NOW, NOW + 3600, ("alice",), **more)
    client.there = [types.SimpleNamespace(entry=entry, source="kvs", down="n2")]
    return entry


def test_nodes_to_choose_and_when_and_for_whom_it_comes_again(treepool, client):
    words = [
        "--nodes=16",
        "--within=switch",
        "--requires=gpu",
        "--every=2w",
        "--group=g",
        "--bank=b",
    ]
    result = treepool("window", "add", *ADD[3:], *words, "--name=dat")
    (entry,) = client.told
    assert (entry.hosts, entry.shape) == ("", "slot=16/node{x}")
    assert (entry.within, entry.requires, entry.every) == ("switch", "gpu", 14)
    assert "dat: n[4-7], from " in result.out  # as the scheduler chose
    assert ", every 14 days, for group g, bank b\n" in result.out


@pytest.mark.parametrize(
    "words, start, end",
    [
        (["--duration=120"], NOW, NOW + 7200),
        ([f"--end={NOW + 60}"], NOW, NOW + 60),
        ([f"--start={NOW + 600}"], NOW + 600, NOW + 4200),
        ([f"--start={NOW + 600}", "--duration=1"], NOW + 600, NOW + 660),
    ],
)
def test_a_window_is_extended_shortened_and_moved(treepool, client, words, start, end):
    before = there(client, every=7)
    result = treepool("window", "change", "dat", *words)
    (entry,) = client.told
    assert entry == attrs.evolve(before, start=start, end=end)
    assert result.out.startswith("changed window dat: ")


def test_who_moves_chosen_nodes_lets_them_be_chosen_anew_and_who_extends_does_not(treepool, client):
    there(client, shape="slot=4/node{x}")
    treepool("window", "change", "dat", "--duration=120")
    treepool("window", "change", "dat", f"--start={NOW + 600}")
    treepool("window", "change", "dat", "--hosts=n7", "--every=once")
    kept, moved, given = client.told
    assert (kept.hosts, moved.hosts) == ("n[0-3]", "")
    assert (given.hosts, given.shape) == ("n7", "")


def test_jobs_end_only_if_asked_for_and_not_in_a_test(treepool, client):
    client.running = ("3", "4")
    told = treepool(*ADD, "--end-jobs", "--test-only", "--name=a")
    assert told.out.startswith("would have added window a: ")
    assert told.out.endswith("would end when it starts: 3 4\n") and client.ended == []
    told = treepool(*ADD, "--end-jobs", "--name=a")
    assert told.out.endswith("end when it starts: 3 4\n")
    assert client.ended == [("3", NOW, "a"), ("4", NOW, "a")]


def test_the_list_says_which_hosts_are_down(treepool, client):
    there(client)
    assert treepool("window", "list").out.rstrip().endswith("n2 down")
    assert '"down": "n2"' in treepool("window", "list", "--json").out
