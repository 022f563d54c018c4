"""Options of ``flux submit`` and its like: what they write into the jobspec, what they refuse."""

import json
import re
import shlex
import subprocess

import pytest

from broker import GUEST, PATIENCE, REPOSITORY, Instance, environment
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "submit.md").read_text()

PLUGINS = REPOSITORY / "treepool" / "flux" / "cliplugin"

#: How each command asks for a job of two slots, and what it needs besides.
COMMANDS = {
    "submit": ["-n2", "true"],
    "run": ["-n2", "true"],
    "alloc": ["-n2"],
    "batch": ["-n2", "--wrap", "true"],
}


def table(heading):
    """The rows of the guide's table that begins with *heading*; code without its quotes."""
    rows = GUIDE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split(" | ")] for row in rows]


SETTINGS = [(option, json.loads(expected)) for option, expected, _ in table("option")]
REFUSALS = [(shlex.split(typed), said) for typed, said in table("you type")]


@pytest.fixture(scope="module")
def env():
    """The environment of a user; there is no instance."""
    return environment()


@pytest.fixture(scope="module")
def flux(env):
    """Runs ``flux WORDS...`` and gives its finished process."""

    def run(*words, stdin="", **more):
        return subprocess.run(
            ["flux", *words],
            env={**env, **more},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run


@pytest.fixture(scope="module")
def jobspec(flux):
    """The jobspec that ``flux COMMAND --dry-run WORDS...`` would submit."""

    def dry_run(command, *words, **more):
        done = flux(command, "--dry-run", *words, **more)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return dry_run


@pytest.fixture(scope="module")
def options(jobspec):
    """``attributes.system.treepool`` of that jobspec."""
    return lambda *words, **more: jobspec(*words, **more)["attributes"]["system"]["treepool"]


@pytest.fixture(scope="module")
def pair():
    """Two brokers, and sched-simple until a test loads another scheduler."""
    with Instance(0, size=2) as instance:
        yield instance


def slot(jobspec):
    """What one slot of *jobspec* has, by type."""
    (vertex,) = jobspec["resources"]
    while vertex["type"] != "slot":
        (vertex,) = vertex["with"]
    return {child["type"]: child["count"] for child in vertex["with"]}


def is_refused(done, command="submit"):
    """The one line of an error, without what Flux puts before it; there must be nothing else."""
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert done.stdout == ""
    assert line.startswith(f"flux-{command}: ERROR: ")
    assert line.isprintable()
    return line.split("ERROR: ", 1)[1]


# -- what is offered


@pytest.mark.parametrize("command", [*COMMANDS, "bulksubmit"])
def test_help_shows_the_options_together_in_the_last_group(flux, command):
    _, group = flux(command, "--help").stdout.split("Options provided by plugins")
    shown = re.findall(r"^ +--([a-z-]+)", group, re.M)
    assert shown[:14] == [
        *("locality", "level", "gpu-link", "same", "same-numa"),
        *("memory", "allow-cxl", "unified-memory", "within", "segment", "locality-wait"),
        *("switches", "window", "gpu", "test-only"),
    ]
    assert "--locality-wait=TIME" in group  # no FSD, which may be a number alone


def test_help_on_an_option_tells_more(flux):
    said = flux("submit", "--help=gpu").stdout
    for key in ("num=", "mode=", "nvlink=", "xgmi=", "gmodel=", "gmem="):
        assert key in said


# -- the jobspec that is made


@pytest.mark.parametrize(("option", "expected"), SETTINGS, ids=[o for o, _ in SETTINGS])
def test_an_option_of_the_guide_sets_what_stands_beside_it(options, option, expected):
    assert options("submit", *option.split(), *COMMANDS["submit"]) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_all_options_at_once(jobspec, command):
    words = (
        "--locality=required --gpu-link=25.5 --same=driver:preferred --same-numa=prefer "
        "--level=socket --memory=64G --allow-cxl --unified-memory --within=switch "
        "--segment=nvl:16 --locality-wait=1.5h --gpu num=3:gmem=16GB"
    )
    made = jobspec(command, *words.split(), *COMMANDS[command])
    assert made["attributes"]["system"]["treepool"] == {
        "locality": "required",
        "gpu_link": 25.5,
        "same": "driver:preferred",
        "same_numa": "prefer",
        "level": "socket",
        "allow_cxl": True,
        "unified_memory": True,
        "within": "switch",
        "segment": "nvl:16",
        "wait": 5400,
        "gpu_memory": 15,
    }
    assert slot(made) == {"core": 1, "gpu": 3, "memory": 64}


def test_a_job_without_options_is_as_without_the_plugin(jobspec):
    with_plugin = jobspec("submit", "-n2", "-g1", "--env=-*", "true")
    without = jobspec("submit", "-n2", "-g1", "--env=-*", "true", FLUX_CLI_PLUGINPATH="")
    assert with_plugin == without


def test_options_stand_beside_those_of_setattr(options):
    words = ("-S", "treepool.level=numa", "-S", "treepool.locality=required")
    assert options("submit", *words, "--locality=required", "--same=os", "true") == {
        "level": "numa",
        "locality": "required",
        "same": "os",
    }


def test_a_batch_script_has_them_in_its_directives(options):
    script = "#!/bin/sh\n# flux: -n2 --locality=required --gpu num=2:xgmi=yes\ntrue\n"
    assert options("batch", stdin=script) == {"locality": "required", "gpu_link": "xgmi"}
    assert options("batch", "--locality=none", stdin=script)["locality"] == "none"


def test_a_program_has_them_as_arguments(flux):
    script = (
        "import json; from flux.job import JobspecV1\n"
        "made = JobspecV1.from_submit(['a'], locality='none', gpu_link=50, gpu='num=2', env=['-*'])"
        "\nprint(made.dumps())"
    )
    made = json.loads(flux("python", "-c", script).stdout)
    assert made["attributes"]["system"]["treepool"] == {"locality": "none", "gpu_link": 50}
    assert slot(made) == {"core": 1, "gpu": 2}


def test_a_program_does_not_count_gpus_twice(flux):
    script = (
        "from flux.job import JobspecV1\nJobspecV1.from_submit(['a'], gpus_per_task=1, gpu='num=2')"
    )
    assert "num=2: the request says already" in flux("python", "-c", script).stderr


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("10", 600),
        ("10:30", 630),
        ("1:00:00", 3600),
        ("1-12", 129_600),
        ("0-0:5", 300),
        ("1-0:0:1", 86_401),
        ("90s", 90),
        ("0.5s", 0.5),
    ],
)
def test_a_time_of_switches_is_as_in_slurm_or_with_a_unit(options, time, seconds):
    assert options("submit", f"--switches=1@{time}", "true") == {"switches": 1, "wait": seconds}


# -- tasks


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("slot/switch{x}/node/core", "node"),
        ("slot=2/node=2/core=4", "node"),
        ("slot=2/node/core=4", "node"),
        ("slot/rack{x}", "node"),
        ("slot/socket{x}", "node"),  # one task either way
        ("slot=2/socket{x}", None),
        ("socket=2/slot/numa/core", None),
        ("switch=2/node=6/slot/core=96", None),
        ("slot/[core=4;gpu=1]", None),
        ("slot/node=2/core -o per-resource.type=core", "core"),
    ],
)
def test_a_slot_that_may_have_several_nodes_has_a_task_on_each(jobspec, words, kind):
    words = f"--locality=none --resources-shape={words}".split()
    options = (
        jobspec("submit", *words, "true")["attributes"]["system"]
        .get("shell", {})
        .get("options", {})
    )
    assert options.get("per-resource", {}).get("type") == kind


@pytest.mark.parametrize("words", [(), ("-S", "treepool.locality=none")])
def test_only_a_job_for_treepool_gets_other_tasks_than_flux_would_start(jobspec, words):
    words = (*words, "--env=-*", "--resources-shape=slot/node=2/core", "true")
    without = jobspec("submit", *words, FLUX_CLI_PLUGINPATH="")
    assert (jobspec("submit", *words) == without) == (len(words) == 3)


def test_other_schedulers_start_the_tasks_that_flux_starts(pair):
    shape = ("run", "--resources-shape=slot=2/node=1/core=1", "echo", "here")
    alone = pair.with_env(FLUX_CLI_PLUGINPATH="")
    assert pair.flux(*shape) == alone.flux(*shape)
    tasks = pair.flux("run", "--locality=none", *shape[1:]).split()
    assert tasks == ["here"] * 2  # an option of treepool makes it a job for treepool


@pytest.mark.parametrize("who", [{}, GUEST])
def test_treepool_starts_a_task_on_each_node_of_a_slot(pair, who):
    pair.load("sched-treepool")
    words = ("--env=-*", "--resources-shape=slot/node=2/core", "true")
    dry = pair.with_env(**who).flux("submit", "--dry-run", *words)
    system = json.loads(dry)["attributes"]["system"]
    assert system["shell"]["options"]["per-resource"] == {"type": "node"}


# -- beside other plugins


@pytest.fixture(params=["before", "after"])
def clashing(request, tmp_path):
    """A path with another plugin that has ``--memory`` and ``--within``, and treepool's."""
    (tmp_path / "other.py").write_text(OTHER)
    both = [str(tmp_path), environment()["FLUX_CLI_PLUGINPATH"]]
    return ":".join(both if request.param == "before" else reversed(both))


#: A plugin of a site.
OTHER = """
from flux.cli.plugin import CLIPlugin

class OtherPlugin(CLIPlugin):
    def __init__(self, prog):
        super().__init__(prog, prefix=None)
        self.add_option("--memory", help="of the site")
        self.add_option("--in", dest="within", help="of the site")

    def modify_jobspec(self, args, jobspec):
        if args.memory:
            jobspec.setattr("system.site", [args.memory, args.within])
"""


def test_an_option_that_another_plugin_has_gets_flux_cores_prefix(jobspec, clashing):
    words = ["--locality=required", "--ex-within=rack", "--ex-memory=2G", "--memory=7", "--in=8"]
    made = jobspec("submit", *words, "true", FLUX_CLI_PLUGINPATH=clashing)
    assert made["attributes"]["system"]["site"] == ["7", "8"]
    assert made["attributes"]["system"]["treepool"] == {"locality": "required", "within": "rack"}
    assert slot(made) == {"core": 1, "memory": 2}


def test_help_says_which_option_has_the_prefix_and_why(flux, clashing):
    shown = flux("submit", "--help", FLUX_CLI_PLUGINPATH=clashing).stdout
    assert "another plugin has --memory" in " ".join(shown.split())
    assert "--ex-locality" not in shown


def test_a_refusal_names_the_option_with_its_prefix(flux, clashing):
    words = ("submit", "--dry-run", "--ex-memory=40", "true")
    assert is_refused(flux(*words, FLUX_CLI_PLUGINPATH=clashing)).startswith("--ex-memory: 40: ")


def test_a_program_passes_a_prefixed_option_by_its_prefixed_name(flux, clashing):
    script = (
        "from flux.job import JobspecV1\n"
        "made = JobspecV1.from_submit(['a'], ex_within='rack', env=['-*']); print(made.dumps())"
    )
    made = json.loads(flux("python", "-c", script, FLUX_CLI_PLUGINPATH=clashing).stdout)
    assert made["attributes"]["system"]["treepool"] == {"within": "rack"}


def test_a_shape_that_is_none_is_one_line_of_flux(flux):
    assert "bracket" in is_refused(flux("submit", "--dry-run", "--resources-shape=slot/[", "true"))


# -- GPUs


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("--gpu num=4", 4),
        ("-n4 --gpu num=2/task:gmem=40G", 2),
        ("--gpu mode=exclusive", 1),
        ("--gpu nvlink=yes -g3", 3),
        ("-N2 --gpu num=4", 4),
        ("-N2 -n4 --gpu num=4", 4),
        ("-N2 --gpus-per-node=3 --gpu nvlink=yes", 3),
        ("-N2 --tasks-per-node=2 --gpus-per-node=3 --gpu nvlink=yes", 3),
        ("--resources-shape=slot/gpu=5 --gpu nvlink=yes", 5),
    ],
)
def test_num_or_else_another_option_or_else_one_is_the_count(jobspec, words, gpus):
    assert slot(jobspec("submit", *words.split(), "true"))["gpu"] == gpus


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ([], {"properties": ["gpu-a100"]}),
        (["foo|bar"], {"and": [{"or": [{"properties": ["foo"]}, {"properties": ["bar"]}]}]}),
        (["host:n1", "foo"], {"and": [{"and": [{"hostlist": ["n1"]}, {"properties": ["foo"]}]}]}),
    ],
)
def test_a_model_is_a_property_beside_what_requires_asks(jobspec, requires, expected):
    words = [f"--requires={text}" for text in requires]
    made = jobspec("submit", *words, "--gpu=num=1:gmodel=A100", "true")
    if requires:
        expected["and"].append({"properties": ["gpu-a100"]})
    assert made["attributes"]["system"]["constraints"] == expected
    assert "treepool" not in made["attributes"]["system"]


def test_memory_is_asked_of_each_slot_in_gib_rounded_up(jobspec):
    for typed, gib in (("64G", 64), ("64GiB", 64), ("64GB", 60), ("100MB", 1)):
        assert slot(jobspec("submit", f"--memory={typed}", "true"))["memory"] == gib
    assert slot(jobspec("submit", "-N2", "-n4", "--memory=1G", "true"))["memory"] == 1


def test_a_shape_may_have_what_an_option_speaks_of(options):
    for shape, option in (("slot/gpu=2", "--gpu-link=50"), ("slot/[core;memory=4]", "--allow-cxl")):
        assert options("submit", f"--resources-shape={shape}", option, "true")


def test_whole_nodes_may_have_gpus_of_which_a_link_is_asked(options):
    words = ("-N1", "--exclusive", "--gpu-link=nvlink")
    assert options("submit", *words, "true") == {"gpu_link": "nvlink"}


def test_the_two_ways_to_ask_for_a_link_agree(options):
    assert options("submit", "--gpu=nvlink=yes", "--gpu-link=nvlink", "true") == {
        "gpu_link": "nvlink"
    }


# -- what is refused


@pytest.mark.parametrize(("typed", "said"), REFUSALS, ids=[" ".join(t) for t, _ in REFUSALS])
def test_a_refusal_of_the_guide_is_the_line_beside_it(flux, typed, said):
    assert is_refused(flux("submit", "--dry-run", *typed, "true")) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--locality="], "--locality: ''"),
        (["--gpu-link=good"], "--gpu-link: 'good' is not nvlink, xgmi, xelink, fast or a number"),
        (["--gpu-link=0"], "--gpu-link: 0 is not"),
        (["--gpu-link=-3"], "--gpu-link: '-3' is not"),
        (["--gpu-link=1e3"], "--gpu-link: '1e3' is not"),
        (["--gpu-link=inf"], "--gpu-link: 'inf' is not"),
        (["--gpu-link=" + "9" * 10_000], "--gpu-link: "),
        (["--same="], "--same: '' is not"),
        (["--same=:prefer"], "--same: ':prefer' is not"),
        (["--same=driver:maybe"], "--same: 'driver:maybe' is not"),
        (["--within="], "--within: '' is not the name of a locality"),
        (["--segment=16"], "--segment: '16' is not a locality and a number of nodes"),
        (["--segment=nvl:4", "--switches=2"], "--segment: 'nvl:4' does not go with switches=2: "),
        (["--switches="], "--switches: '' is not a number, such as 1 or 1@10:00"),
        (["--switches=0"], "--switches: 0 is not a number of domains"),
        (["--switches=1@soon"], "--switches: 'soon' is not a time such as 10m"),
        (["--switches=1@0"], "--switches: 0 is not a number of seconds above 0 and up to"),
        (["--locality-wait=0s"], "--locality-wait: 0 is not a number of seconds above 0 and up to"),
        (["--switches=1@" + "9" * 5000], "--switches: '9"),
        (["--switches=1@5", "--locality-wait=5m"], "--locality-wait says already how long"),
        (["--locality-wait=10"], "--locality-wait: '10' is not a time such as 10m"),
        (["--locality-wait=infinity"], "--locality-wait: 'infinity' is not a time"),
        (["--locality-wait=5m", "--locality=none"], "contradicts locality='none'"),
        (["--same-numa=yes"], "--same-numa: 'yes' is not one of preferred, required"),
        (["--locality=\x1b[31mred\n"], "--locality: '\\x1b[31mred\\n' is not"),
        (["--gpu="], "--gpu: column 1: expected one of num"),
        (["--gpu=num=\udcff"], "--gpu: column 5: num="),
        (["--gpu=gmodel=NVIDIAA100-80G"], "write gmodel=a100, and gmem for its memory"),
        (["--gpu=glink=yes", "--gpu-link=nvlink"], "--gpu: glink=yes contradicts --gpu-link"),
        (["--gpu=gmodel=nvidia"], "--gpu: gmodel=nvidia names no model"),
        (["--gpu=xgmi=yes", "--gpu-link=nvlink"], "--gpu: xgmi=yes contradicts --gpu-link"),
        (["--gpu=num=2", "-N1", "--gpus-per-node=2"], "--gpus-per-node says already"),
        (["--gpu=num=2", "-N1", "--tasks-per-node=2"], "take --gpus-per-node"),
        (["--gpu=nvlink=yes", "--cores=4"], "take --gpus-per-node"),
        (["--gpu=num=2", "--resources-shape=slot/gpu"], "--resources-shape says already"),
        (["--gpu=num=2", "-g0"], "-g says already"),
        (["-S", "treepool=1", "--same=os"], "--setattr=treepool is not an object"),
        (["--gpu-link=nvlink"], "--gpu-link: the job asks for no GPU"),
        (["--gpu-link=50", "--resources-shape=slot/core=2"], "--gpu-link: the job asks for no GPU"),
        (["--allow-cxl"], "--allow-cxl: the job asks for no memory"),
        (["--allow-cxl", "-N1", "--exclusive"], "--allow-cxl: the job asks for no memory"),
        (["--level=socket", "--same-numa=required"], "'required' contradicts level='socket'"),
        (["--same-numa=preferred", "--locality=none"], "contradicts locality='none'"),
        (["-S", "treepool.level=socket", "--same-numa=required"], "contradicts level='socket'"),
        (["--level="], "--level: '' is not the name of a locality"),
        (["--memory=40"], "--memory: 40: a size such as 40G or 40GB is expected"),
        (["--memory=0GB"], "--memory: 0GB: more than nothing"),
        (["--memory=\x1b[31m"], "--memory: '\\x1b[31m': a size"),
        (
            ["--memory=1GB", "--resources-shape=slot/[core;memory=4]"],
            "--memory: --resources-shape says all that the job asks for",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(flux, words, said):
    line = is_refused(flux("submit", "--dry-run", *words, "true"))
    assert said in line
    assert len(line) < 300


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_alike(flux, command):
    done = flux(command, "--dry-run", "-g2", "--gpu=num=2", *COMMANDS[command])
    assert "-g says already" in is_refused(done, command)


# -- where Flux loads it


def test_where_treepool_cannot_be_imported_only_its_options_are_lost(flux):
    # A checkout has not what treepool needs beside it, as an installed copy has.
    bare = {
        "PYTHONPATH": "",
        "PYTHONNOUSERSITE": "1",
        "FLUX_PYTHONPATH_PREPEND": "",
        "FLUX_CLI_PLUGINPATH": str(PLUGINS),
    }
    if flux("python", "-c", "import attrs", **bare).returncode == 0:
        pytest.skip("Flux's own Python has attrs")
    assert flux("submit", "--dry-run", "true", **bare).returncode == 0
    line = is_refused(flux("submit", "--dry-run", "--same=os", "true", **bare))
    assert "attrs" in line
    assert "treepool flux-env --check" in line


def test_a_job_without_options_does_not_import_treepool(flux):
    done = flux("submit", "--dry-run", "true", PYTHONVERBOSE="1")
    assert "topology" in done.stderr
    assert "import 'treepool" not in done.stderr


def test_a_plugin_that_is_twice_on_the_path_is_there_once(options):
    path = environment()["FLUX_CLI_PLUGINPATH"]
    twice = options("submit", "--same=os", "true", FLUX_CLI_PLUGINPATH=f"{path}:{path}")
    assert twice == {"same": "os"}


# -- in an instance


def submitted(instance, job):
    """The jobspec of *job* as the instance has it."""
    return json.loads(instance.flux("job", "info", job, "jobspec"))


def test_a_job_with_required_locality_waits_and_a_preferred_one_does_not(small, idle):
    small.load("sched-treepool")
    small.wait(small.submit("-N1", "-n1", "--exclusive"), "alloc")
    small.wait(small.submit("-c2"), "alloc")
    small.wait(small.submit("-c3"), "alloc")
    # Left is one node, with 2 cores in one NUMA domain and 1 in the other.
    waiting = small.submit("-c3", "--locality=required")
    small.settle()
    assert small.state(waiting) == "S"
    small.flux("cancel", waiting)
    ((_, cores, _),) = small.placed(small.submit("-c3", "--locality=preferred"))
    assert cores == "2-3,7"


def test_a_model_that_no_node_has_is_refused_by_the_scheduler(small, idle):
    small.load("sched-treepool")
    job = small.submit("--gpu=num=1:gmodel=H100")
    assert small.wait(job, "exception")["type"] == "alloc"
    assert small.placed(small.submit("--gpu=num=2"))[0][2] == "0-1"


def test_copies_and_bulk_jobs_have_the_options_too(small, idle):
    small.load("sched-treepool")
    words = ("--locality=required", "--gpu=num=1:mode=exclusive")
    jobs = small.submit("--cc=0-1", *words).split()
    jobs += small.flux("bulksubmit", *words, "-c{}", "true", ":::", "1", "2").split()
    assert len(jobs) == 4
    made = [submitted(small, job) for job in jobs]
    assert [m["attributes"]["system"]["treepool"] for m in made] == [{"locality": "required"}] * 4
    assert [slot(m) for m in made] == [{"core": c, "gpu": 1} for c in (1, 1, 1, 2)]


# -- the guide


def guide_lines():
    """The commands of the guide, as words."""
    return [shlex.split(line) for block in blocks(GUIDE, "sh") for line in block.splitlines()]


@pytest.mark.parametrize("words", guide_lines(), ids=" ".join)
def test_a_command_of_the_guide_is_accepted(flux, words):
    flux_, command, *rest = words
    assert flux_ == "flux"
    done = flux(command, "--dry-run", *rest)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_jobspec_of_the_guide_is_what_comes_out(jobspec):
    (shown,) = blocks(GUIDE, "json")
    (words,) = [words[1:] for words in guide_lines() if "--requires=host:n1" in words]
    made = jobspec(*words)
    system = made["attributes"]["system"]
    assert {name: system[name] for name in ("constraints", "treepool")} == json.loads(shown)
    assert slot(made) == {"core": 1, "gpu": 4}
