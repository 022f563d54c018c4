"""Table [sched-treepool] in real instances, as files, and what ``flux config reload`` does."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker import Failed, Instance

QUEUES = "[queues.batch]\nrequires = []\n[queues.debug]\nrequires = []\n"


class Configured(Instance):
    """An instance of two nodes of 4 cores with a directory of configuration."""

    def __init__(self, directory, text):
        self.directory = directory
        (directory / "queues.toml").write_text(QUEUES)
        self.write(text)
        super().__init__(2, 4, 0, options=[f"--config-path={directory}"])
        self.load("sched-treepool")
        self.flux("queue", "start", "--all", "--quiet")

    def write(self, text):
        (self.directory / "sched.toml").write_text(text)

    def reload(self, text):
        """The finished process of ``flux config reload`` with another *text*."""
        self.write(text)
        return self.run("config", "reload")


EASY = '[sched-treepool]\npolicy = "easy"\n'


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Configured(tmp_path_factory.mktemp("conf"), EASY) as instance:
        yield instance


@pytest.fixture
def instance(shared):
    """The instance as it was at its start, with an empty log."""
    shared.flux("dmesg", "-C")
    yield shared
    for file in shared.directory.glob("zz.toml"):
        file.unlink()
    assert shared.reload(EASY).returncode == 0
    shared.load("sched-treepool")
    shared.flux("queue", "start", "--all", "--quiet")
    shared.cancel_all()


def submit(instance, *words, queue="batch", **more):
    return instance.submit(f"--queue={queue}", *words, **more)


def pending(instance, job):
    return instance.waits(job)


def test_the_table_holds_at_load_and_arguments_override_it(instance):
    assert instance.stats()["policy"] == "easy"
    instance.load("sched-treepool", "policy=conservative")
    assert instance.stats()["policy"] == "conservative"
    assert instance.reload('[sched-treepool]\npolicy = "fifo"\n').returncode == 0
    assert instance.stats()["policy"] == "conservative"


def test_an_instance_without_a_key_has_flat_nodes(instance):
    instance.load("sched-treepool")
    assert instance.soon(lambda: "nodes are flat" in instance.log())
    assert instance.placed(submit(instance, "-n1", "-c3")) == [("0", "0-2", "")]


def test_a_queue_may_have_a_policy_of_its_own_and_another_holds_at_once(instance):
    text = '[sched-treepool.queues.batch]\npolicy = "fifo"\n'
    assert instance.reload(text).returncode == 0
    told = {name: queue["policy"] for name, queue in instance.stats()["queues"].items()}
    assert told == {"batch": "fifo", "debug": "easy"}
    submit(instance, "-N1", "-n4", "-t1h")
    short = []
    for queue in ("batch", "debug"):
        submit(instance, "-N2", "-n2", "--exclusive", "-t1h", queue=queue)
        short.append(submit(instance, "-n1", "-t30m", queue=queue))
    instance.wait(short[1], "alloc")
    assert pending(instance, short[0])
    assert instance.reload(EASY).returncode == 0
    instance.wait(short[0], "alloc")


KNOWN = "fifo, easy, conservative"

#: What a C function could take for a format.
PERCENT = "%n%s" * 10

#: Lines of the table, and which key the refusal names.
WRONG = {
    'policy = "best"': "policy: ",
    f'policy = "{PERCENT}"': "policy: ",
    'polcy = "easy"': "polcy: ",
    "queues.night = {}": "queues.night: ",
    "windows = [{}]": "windows: ",
    'mix = "1*slot/sockt{x}"': "mix: ",
}


def test_what_is_wrong_is_refused_with_file_and_key_and_the_old_table_stays(instance):
    file = instance.directory / "sched.toml"
    for line, said in WRONG.items():
        done = instance.reload(f"[sched-treepool]\n{line}\n")
        assert done.returncode != 0
        assert f"error updating sched-treepool: {file}: sched-treepool." in done.stderr
        assert said in done.stderr
        assert f"{file}: sched-treepool.{said}" in instance.log()
    assert f"policy: {PERCENT}" in instance.log()
    done = instance.run("config", "load", stdin='sched-treepool.policy = "eazy"')
    assert "sched-treepool.policy: eazy: known are fifo, easy, conserv" in done.stderr
    assert instance.stats()["policy"] == "easy"
    # If the job manager was told first, the queues, which that configuration lacked, are new.
    instance.flux("queue", "start", "--all", "--quiet")
    instance.wait(submit(instance, "-n1"), "alloc")


def test_an_error_that_is_too_long_to_be_printed_is_in_the_log(instance):
    done = instance.reload(f'[sched-treepool]\npolicy = "{"x" * 60}"\n')
    (line,) = done.stderr.splitlines()
    assert line.endswith("... (flux dmesg)")
    (logged,) = [line for line in instance.log().splitlines() if "is refused" in line]
    assert logged.endswith(f"sched.toml: sched-treepool.policy: {'x' * 60}: known are {KNOWN}")


def test_what_is_wrong_at_load_is_told_the_same_way(instance):
    instance.flux("module", "remove", "sched-treepool")
    instance.write('[sched-treepool.queues.debug]\npolicy = "x"\n')
    instance.flux("config", "reload")
    with pytest.raises(Failed):
        instance.flux("module", "load", "sched-treepool")
    said = f"{instance.directory / 'sched.toml'}: sched-treepool.queues.debug.policy: x: known are"
    assert said in instance.log()


BOOT = '[modules]\nalternatives.sched = "sched-treepool"\n[sched-treepool]\n'


def booted(directory, text):
    """What an instance says on stderr that starts with *text* as its configuration, and ends."""
    (directory / "treepool.toml").write_text(BOOT + text)
    with pytest.raises(Failed) as raised, Instance(1, 4, 0, options=[f"--config-path={directory}"]):
        pass
    return str(raised.value)


def validate(file, stdin=""):
    """The exit status and the output of ``treepool validate FILE``."""
    words = [sys.executable, "-m", "treepool", "validate", str(file)]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_wrong_table_ends_the_broker_at_its_start_and_validate_tells_before(tmp_path):
    said = booted(tmp_path, 'policy = "best"\n')
    file = tmp_path / "treepool.toml"
    assert f"sched-treepool.err[0]: {file}: sched-treepool.policy: best: known are" in said
    assert validate(file) == (1, f"/sched-treepool/policy: best: known are {KNOWN}\n")


def test_an_instance_whose_key_is_wrong_starts_without_a_scheduler(tmp_path):
    (tmp_path / "key.json").write_text('{"writer": "TreePool", "children": [{"ranks": "7"}]}')
    resource = f"""
        [resource]
        noverify = true
        scheduling = "{tmp_path / "key.json"}"
        [[resource.config]]
        hosts = "fake0"
        cores = "0-3"
    """
    (tmp_path / "treepool.toml").write_text(BOOT + resource)
    with Instance(0, options=[f"--config-path={tmp_path}"]) as instance:
        problem = "/scheduling/children/0: key 'topo' is missing"
        said = f"sched-treepool.err[0]: cannot use this instance's R: {problem}"
        assert instance.soon(lambda: said in instance.log())
        assert instance.soon(lambda: "sched-" not in instance.flux("module", "list"))
        R = instance.flux("R", "parse-config", tmp_path)
    assert validate("-", stdin=R) == (1, f"{problem}\n")


def test_where_windows_are_damaged_there_is_no_scheduler_and_they_can_be_removed(instance):
    instance.flux("module", "remove", "sched-treepool")
    damaged, why = 20_000 * "[" + 20_000 * "]", "windows are nested too deep"
    instance.flux("kvs", "put", f"sched-treepool.windows={damaged}")
    # An instance starts: the load does not fail, the module ends.
    instance.flux("module", "load", "sched-treepool")
    said = f"sched-treepool.err[0]: KVS: sched-treepool.windows: {why}"
    assert instance.soon(lambda: said in instance.log())
    assert instance.soon(lambda: "sched-" not in instance.flux("module", "list"))
    instance.flux("kvs", "unlink", "sched-treepool.windows")
    instance.flux("module", "load", "sched-treepool")


def test_a_mix_that_names_an_unknown_locality_is_refused_at_load(instance):
    instance.flux("module", "remove", "sched-treepool")
    instance.run("module", "load", "sched-treepool", "discover=off", "mix=1*slot/sockt{x}")
    said = "mix: 'slot/sockt{x}': /resources/0/with/0: unknown resource type"
    assert instance.soon(lambda: said in instance.log())
    assert instance.soon(lambda: "sched-treepool" not in instance.flux("module", "list"))
    instance.flux("module", "load", "sched-treepool", "mix=1*slot/sockt{x}")
    assert instance.soon(lambda: "err[0]: mix: 'slot/sockt{x}': " in instance.log())


def test_what_needs_a_reload_of_the_module_says_so(instance):
    assert instance.reload("[sched-treepool]\nqueue-depth = 8\n").returncode == 0
    assert "queue-depth: holds from the next reload of this module on" in instance.log()
    instance.load("sched-treepool")
    assert instance.soon(lambda: "queue-depth=8" in instance.ready())


def test_of_files_with_the_same_key_the_one_that_counts_is_named(instance):
    last = instance.directory / "zz.toml"
    last.write_text('[sched-treepool]\npolicy = "best"\n')
    done = instance.reload('[sched-treepool]\npolicy = "easy"\n')
    assert f"{last}: sched-treepool.policy: best:" in done.stderr  # the rest may be cut
    assert f"{last}: sched-treepool.policy: best: known are" in instance.log()


def test_a_mistake_in_an_argument_leaves_no_scheduler_and_the_log_names_it(instance):
    done = instance.run("module", "reload", "sched-treepool", "policy=eazy")
    assert (done.returncode, "Invalid argument" in done.stderr) == (1, True)
    (line,) = (line for line in instance.log().splitlines() if "sched-treepool.err" in line)
    assert line.endswith(": policy=eazy: known are fifo, easy, conservative (did you mean 'easy'?)")
    assert "sched" not in instance.flux("module", "list").replace("scheduler", "")


def test_a_question_is_answered_while_a_new_configuration_is_on_its_way(instance):
    instance.flux("module", "load", Path(__file__).with_name("curious.py"))
    instance.write('[sched-treepool]\npolicy = "fifo"\n')
    assert instance.flux("config", "reload", timeout=10) == ""
    assert instance.stats()["policy"] == "fifo"
    instance.flux("module", "remove", "curious")
