"""Table [sched-treepool] in real instances, as files, and what ``flux config reload`` does."""

import json
import os
import signal
import subprocess
import sys
import time
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


@pytest.fixture
def instance(tmp_path):
    with Configured(tmp_path, '[sched-treepool]\npolicy = "easy"\n') as instance:
        yield instance


def submit(instance, *words, queue="batch", **more):
    return instance.submit(f"--queue={queue}", *words, **more)


def pending(instance, job):
    instance.settle()
    return instance.state(job) == "S"


def test_the_table_holds_at_load_and_arguments_override_it(instance):
    assert instance.stats()["policy"] == "easy"
    instance.load("sched-treepool", "policy=conservative")
    assert instance.stats()["policy"] == "conservative"
    assert instance.reload('[sched-treepool]\npolicy = "fifo"\n').returncode == 0
    assert instance.stats()["policy"] == "conservative"


def test_another_policy_holds_at_once_for_jobs_that_wait(instance):
    assert instance.reload('[sched-treepool]\npolicy = "fifo"\n').returncode == 0
    assert instance.stats()["policy"] == "fifo"
    submit(instance, "-N1", "-n4", "-t1h")
    whole = submit(instance, "-N2", "-n2", "--exclusive", "-t1h")
    short = submit(instance, "-n1", "-t30m")
    assert pending(instance, whole) and pending(instance, short)
    assert instance.reload('[sched-treepool]\npolicy = "easy"\n').returncode == 0
    instance.wait(short, "alloc")
    assert pending(instance, whole)


def test_a_queue_may_have_a_policy_of_its_own(instance):
    text = '[sched-treepool.queues.batch]\npolicy = "fifo"\n'
    assert instance.reload(text).returncode == 0
    told = {name: queue["policy"] for name, queue in instance.stats()["queues"].items()}
    assert told == {"batch": "fifo", "debug": "easy"}
    submit(instance, "-N1", "-n4", "-t1h")
    for queue, passes in (("batch", False), ("debug", True)):
        submit(instance, "-N2", "-n2", "--exclusive", "-t1h", queue=queue)
        assert pending(instance, submit(instance, "-n1", "-t30m", queue=queue)) is not passes


def test_other_options_of_the_pool_hold_for_jobs_that_wait_with_their_priority(instance):
    first = submit(instance, "-N1", "-n1", "-t1h")
    assert instance.placed(first)[0][0] == "0"
    both = submit(instance, "-N2", "-n2", "--exclusive")
    last, urgent = (submit(instance, "-N2", "-n2", "--exclusive") for _ in range(2))
    instance.flux("job", "urgency", urgent, "31")
    assert instance.reload('[sched-treepool]\nnode-policy = "worst-fit"\n').returncode == 0
    one = submit(instance, "-n1", "-t1m", queue="debug")
    assert instance.placed(one)[0][0] == "1"
    for job in (first, one):
        instance.flux("cancel", job)
    instance.wait(urgent, "alloc")
    assert pending(instance, both) and pending(instance, last)


def test_windows_of_the_configuration_come_and_go_with_it(instance):
    end = int(time.time()) + 7200
    window = f'{{name = "maint", hosts = "fake[0-1]", start = 1, end = {end}}}'
    assert instance.reload(f"[sched-treepool]\nwindows = [{window}]\n").returncode == 0
    job = submit(instance, "-n1", "-t1h")
    assert pending(instance, job)
    (listed,) = instance.flux("treepool", "window", "list", "--json").splitlines()
    assert json.loads(listed)["source"] == "configuration"
    assert instance.reload("").returncode == 0
    instance.wait(job, "alloc")
    assert instance.flux("treepool", "window", "list", "--json") == ""


KNOWN = "fifo, easy, conservative"

WRONG = {
    'policy = "best"': "policy: best: known are fifo, easy, conservative",
    'polcy = "easy"': "polcy: unknown, known are policy,",
    "queues.night = {}": "queues.night: this instance has no such queue",
    "windows = [{}]": "windows: /0: lacks name, hosts, start, end",
    'mix = "1*slot/sockt{x}"': "mix: 'slot/sockt{x}': ",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_refused_with_file_and_key_and_the_old_table_stays(instance, line):
    done = instance.reload(f"[sched-treepool]\n{line}\n")
    assert done.returncode != 0
    file = instance.directory / "sched.toml"
    assert f"error updating sched-treepool: {file}: sched-treepool." in done.stderr
    assert WRONG[line].partition(":")[0] in done.stderr
    assert instance.stats()["policy"] == "easy"
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
    instance.flux("module", "load", "sched-simple")


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


def test_a_window_outlives_a_crash_if_the_kvs_has_checkpoints(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "treepool.toml").write_text(BOOT + '[kvs]\ncheckpoint-period = "1s"\n')
    state = f"--setattr=statedir={tmp_path}"
    options = [f"--config-path={tmp_path / 'conf'}", state]
    with Instance(1, 4, 0, options=options) as first:
        first.flux("treepool", "window", "add", "--hosts=fake0", "--start=+1h", "--duration=1h")
        time.sleep(2.5)
        os.kill(int(first.flux("getattr", "broker.pid")), signal.SIGKILL)
    with Instance(1, 4, 0, options=options) as second:
        assert "fake0" in second.flux("treepool", "window", "list")


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        ('[{"name": "maint"}]', "/0: key 'end' is missing"),
        (20_000 * "[" + 20_000 * "]", "windows are nested too deep"),
    ],
    ids=["key", "depth"],
)
def test_an_instance_whose_windows_are_damaged_starts_and_they_can_be_removed(
    tmp_path, damaged, why
):
    (tmp_path / "treepool.toml").write_text(BOOT)
    options = [f"--config-path={tmp_path}", f"--setattr=statedir={tmp_path}"]
    with Instance(1, 4, 0, options=options) as first:
        first.flux("kvs", "put", f"sched-treepool.windows={damaged}")
    with Instance(1, 4, 0, options=options) as second:
        said = f"sched-treepool.err[0]: KVS: sched-treepool.windows: {why}"
        assert second.soon(lambda: said in second.log())
        assert second.soon(lambda: "sched-" not in second.flux("module", "list"))
        second.flux("kvs", "unlink", "sched-treepool.windows")
        second.flux("module", "load", "sched-treepool")
        second.wait(second.submit("-n1"), "alloc")


def test_a_mix_that_names_an_unknown_locality_is_refused_at_load(instance):
    instance.flux("module", "remove", "sched-treepool")
    instance.run("module", "load", "sched-treepool", "discover=off", "mix=1*slot/sockt{x}")
    said = "mix: 'slot/sockt{x}': /resources/0/with/0: unknown resource type"
    assert instance.soon(lambda: said in instance.log())
    assert instance.soon(lambda: "sched-treepool" not in instance.flux("module", "list"))
    instance.flux("module", "load", "sched-treepool", "mix=1*slot/sockt{x}")
    assert instance.soon(lambda: "err[0]: mix: 'slot/sockt{x}': " in instance.log())


def test_a_module_that_finds_a_mistake_once_it_is_loaded_does_not_end_the_broker(instance):
    instance.flux("module", "remove", "sched-treepool")
    instance.flux("module", "load", "sched-treepool", "discover=off", "mix=1*slot/sockt{x}")
    assert instance.soon(lambda: "sched-treepool" not in instance.flux("module", "list"))
    assert "runtime failure" not in instance.log()
    instance.flux("module", "load", "sched-simple")
    instance.wait(submit(instance, "-n1"), "alloc")
    assert instance.process.poll() is None


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


def test_an_option_is_tried_and_a_mistake_in_it_named_while_the_old_one_stays(instance):
    """As README does it, and doc/admin.md says."""
    mistake = instance.run("config", "load", stdin='sched-treepool.policy = "eazy"')
    assert mistake.returncode == 1
    assert "sched-treepool.policy: eazy: known are fifo, easy, conserv" in mistake.stderr
    assert instance.stats()["policy"] == "easy"
    instance.flux("config", "load", stdin='sched-treepool.policy = "conservative"')
    assert instance.stats()["policy"] == "conservative"


def test_a_mistake_in_an_argument_leaves_no_scheduler_and_the_log_names_it(instance):
    done = instance.run("module", "reload", "sched-treepool", "policy=eazy")
    assert (done.returncode, "Invalid argument" in done.stderr) == (1, True)
    (line,) = (line for line in instance.log().splitlines() if "sched-treepool.err" in line)
    assert line.endswith(": policy=eazy: known are fifo, easy, conservative (did you mean 'easy'?)")
    assert "sched" not in instance.flux("module", "list").replace("scheduler", "")


def test_what_was_loaded_without_a_file_names_none(instance):
    conf = json.dumps({"queues": {"batch": {}, "debug": {}}, "sched-treepool": {"policy": "best"}})
    done = instance.run("config", "load", stdin=conf)
    assert "configuration: sched-treepool.policy: best: known are" in done.stderr


def test_a_window_for_a_queue_that_there_is_not_is_warned_of(instance):
    window = '{name = "w", hosts = "fake0", start = 1, end = 4e9, queues = ["late", "nihgt"]}'
    table = f"[queues.late]\nrequires = []\n[sched-treepool]\nwindows = [{window}]\n"
    assert instance.reload(table).returncode == 0
    said = "window w: this instance has no queue 'nihgt'\n"
    assert instance.soon(lambda: said in instance.log()), instance.log()


def test_one_reload_changes_everything_in_the_middle_of_a_pass_and_each_job_is_answered_once(
    instance,
):
    submit(instance, "-N2", "-n2", "--exclusive", "-t1h")
    words = ["bulksubmit", "--queue={}", "-n1", "-t1m", "--cc=0-99", "true", ":::"]
    jobs = instance.flux(*words, "batch", "debug").split()
    for number in range(8):
        policy, node = ("easy", "worst-fit") if number % 2 else ("conservative", "first-fit")
        own = f'[sched-treepool.queues.debug]\npolicy = "{("fifo", "easy")[number % 2]}"\n'
        text = f'[sched-treepool]\npolicy = "{policy}"\nnode-policy = "{node}"\n{own}'
        assert instance.reload(text).returncode == 0
        if number == 4:
            instance.flux("cancel", "--all", "--states=run")
    stats = instance.soon(lambda: (s := instance.stats())["pending_jobs"] == 0 and s, 60)
    assert stats, instance.log()
    assert stats["jobs"]["placed"] == 1 + len(jobs)
    assert (stats["jobs"]["refused"], stats["jobs"]["failed"]) == (0, 0)


def test_a_question_is_answered_while_a_new_configuration_is_on_its_way(instance):
    instance.flux("module", "load", Path(__file__).with_name("curious.py"))
    instance.write('[sched-treepool]\npolicy = "fifo"\n')
    assert instance.flux("config", "reload", timeout=10) == ""
    assert instance.stats()["policy"] == "fifo"


def test_a_percent_sign_in_an_error_is_logged_as_it_is(instance):
    wrong = "%n%s" * 10
    assert instance.reload(f'[sched-treepool]\npolicy = "{wrong}"\n').returncode != 0
    assert f"policy: {wrong}" in instance.log()
