"""Options of ``flux submit`` and its like: what they write into the jobspec, what they refuse."""

import json
import re
import shlex
import subprocess

import attrs
import pytest

from broker import PATIENCE, REPOSITORY, environment, run_command
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


@attrs.frozen
class Typed:
    """What became of a command."""

    command: str
    status: int
    out: str
    err: str

    @property
    def jobspec(self):
        """The jobspec that it would submit."""
        assert (self.status, self.err) == (0, ""), self.err
        return json.loads(self.out)

    @property
    def options(self):
        """``attributes.system.treepool`` of that."""
        return self.jobspec["attributes"]["system"]["treepool"]

    @property
    def refusal(self):
        """The one line of an error, without what Flux puts before it; there is nothing else."""
        (line,) = self.err.splitlines()
        assert (self.status, self.out) == (1, "")
        assert line.startswith(f"flux-{self.command}: ERROR: ") and line.isprintable()
        assert len(line) < 300
        return line.split("ERROR: ", 1)[1]


@pytest.fixture(scope="module")
def env():
    """The environment of a user; there is no instance."""
    return environment()


@pytest.fixture(scope="module")
def typed(env):
    """What becomes of each of some commands of Flux, which are lists of words."""

    def typed(*commands, stdin="", **variables):
        done = [run_command(words, {**env, **variables}, stdin) for words in commands]
        return [Typed(d.args[0], d.returncode, d.stdout, d.stderr) for d in done]

    return typed


@pytest.fixture(scope="module")
def submitted(typed):
    """What becomes of ``flux submit --dry-run WORDS... true``, for each of some words."""

    def submitted(*cases, **more):
        return typed(*(["submit", "--dry-run", *words, "true"] for words in cases), **more)

    return submitted


def slot(jobspec):
    """What one slot of *jobspec* has, by type."""
    (vertex,) = jobspec["resources"]
    while vertex["type"] != "slot":
        (vertex,) = vertex["with"]
    return {child["type"]: child["count"] for child in vertex["with"]}


# -- what is offered


def test_help_shows_the_options_together_in_the_last_group(typed):
    *commands, gpu = typed(
        *([c, "--help"] for c in (*COMMANDS, "bulksubmit")), ["submit", "--help=gpu"]
    )
    for said in commands:
        _, group = said.out.split("Options provided by plugins")
        shown = re.findall(r"^ +--([a-z-]+)", group, re.M)
        assert shown[:15] == [
            *("locality", "level", "gpu-link", "same", "same-numa"),
            *("memory", "allow-cxl", "unified-memory", "within", "segment", "locality-wait"),
            *("switches", "window", "gpu", "test-only"),
        ]
        assert "--locality-wait=TIME" in group  # no FSD, which may be a number alone
    for key in ("num=", "mode=", "nvlink=", "xgmi=", "gmodel=", "gmem="):
        assert key in gpu.out


# -- the jobspec that is made


def test_an_option_of_the_guide_sets_what_stands_beside_it(submitted):
    made = submitted(*([*option.split(), "-n2"] for option, _ in SETTINGS))
    for said, (option, expected) in zip(made, SETTINGS):
        assert said.options == expected, option


def test_every_command_takes_all_options_at_once_and_refuses_alike(typed):
    words = (
        "--locality=required --gpu-link=25.5 --same=driver:preferred --same-numa=prefer "
        "--level=socket --memory=64G --allow-cxl --unified-memory --within=switch "
        "--segment=nvl:16 --locality-wait=1.5h --gpu num=3:gmem=16GB"
    )
    for said in typed(*([c, "--dry-run", *words.split(), *COMMANDS[c]] for c in COMMANDS)):
        assert said.options == {
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
        assert slot(said.jobspec) == {"core": 1, "gpu": 3, "memory": 64}
    for said in typed(*([c, "--dry-run", "-g2", "--gpu=num=2", *COMMANDS[c]] for c in COMMANDS)):
        assert "-g says already" in said.refusal


def test_a_job_without_options_is_as_without_the_plugin_and_imports_nothing(submitted, env):
    words = ["-n2", "-g1", "--env=-*"]
    (mine,), (without,) = submitted(words), submitted(words, FLUX_CLI_PLUGINPATH="")
    assert mine.jobspec == without.jobspec
    verbose = {**env, "PYTHONVERBOSE": "1"}
    command = ["flux", "submit", "--dry-run", "true"]
    done = subprocess.run(command, env=verbose, capture_output=True, text=True)
    assert "topology" in done.stderr and "import 'treepool" not in done.stderr


def test_options_stand_beside_those_of_setattr_and_in_a_batch_script(submitted, typed):
    words = ["-S", "treepool.level=numa", "-S", "treepool.locality=required"]
    (said,) = submitted([*words, "--locality=required", "--same=os"])
    assert said.options == {"level": "numa", "locality": "required", "same": "os"}
    script = "#!/bin/sh\n# flux: -n2 --locality=required --gpu num=2:xgmi=yes\ntrue\n"
    batch = ["batch", "--dry-run"]
    said, other = typed(batch, [*batch, "--locality=none"], stdin=script)
    assert said.options == {"locality": "required", "gpu_link": "xgmi"}
    assert other.options["locality"] == "none"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("locality='none', gpu='num=2'", '"treepool": {"locality": "none"}'),
        ("gpus_per_task=1, gpu='num=2'", "num=2: the request says already"),
    ],
)
def test_a_program_has_them_as_arguments(env, arguments, said):
    script = (
        "from flux.job import JobspecV1\n"
        f"print(JobspecV1.from_submit(['a'], {arguments}, env=['-*']).dumps())"
    )
    done = subprocess.run(
        ["flux", "python", "-c", script], env=env, capture_output=True, text=True, timeout=PATIENCE
    )
    assert said in done.stdout + done.stderr


def test_a_slot_that_may_have_several_nodes_has_a_task_on_each(submitted):
    kinds = {
        "slot/switch{x}/node/core": "node",
        "slot=2/node/core=4": "node",
        "slot/rack{x}": "node",
        "slot/socket{x}": "node",  # one task either way
        "slot=2/socket{x}": None,
        "switch=2/node=6/slot/core=96": None,
        "slot/[core=4;gpu=1]": None,
        "slot/node=2/core -o per-resource.type=core": "core",
    }
    made = submitted(*(f"--locality=none --resources-shape={words}".split() for words in kinds))
    for said, (words, kind) in zip(made, kinds.items()):
        shell = said.jobspec["attributes"]["system"].get("shell", {})
        assert shell.get("options", {}).get("per-resource", {}).get("type") == kind, words
    for_any = ["--env=-*", "--resources-shape=slot/node=2/core"]
    (mine,), (without,) = submitted(for_any), submitted(for_any, FLUX_CLI_PLUGINPATH="")
    assert mine.jobspec == without.jobspec, "it may be for another scheduler"


def test_num_or_else_another_option_or_else_one_is_the_count(submitted):
    counts = {
        "--gpu num=4": 4,
        "-n4 --gpu num=2/task:gmem=40G": 2,
        "--gpu mode=exclusive": 1,
        "--gpu nvlink=yes -g3": 3,
        "-N2 -n4 --gpu num=4": 4,
        "-N2 --tasks-per-node=2 --gpus-per-node=3 --gpu nvlink=yes": 3,
        "--resources-shape=slot/gpu=5 --gpu nvlink=yes": 5,
    }
    made = submitted(*map(str.split, counts))
    assert [slot(said.jobspec)["gpu"] for said in made] == list(counts.values())


def test_a_model_is_a_property_beside_what_requires_asks(submitted):
    model = {"properties": ["gpu-a100"]}
    alone, beside = submitted(
        ["--gpu=num=1:gmodel=A100"], ["--requires=foo|bar", "--gpu=num=1:gmodel=A100"]
    )
    assert alone.jobspec["attributes"]["system"]["constraints"] == model
    foo = {"or": [{"properties": ["foo"]}, {"properties": ["bar"]}]}
    assert beside.jobspec["attributes"]["system"]["constraints"] == {"and": [foo, model]}


def test_memory_is_asked_of_each_slot_in_gib_rounded_up(submitted):
    sizes = {"64G": 64, "64GiB": 64, "64GB": 60, "100MB": 1}
    made = submitted(*([f"--memory={size}", "-n4"] for size in sizes))
    assert [slot(said.jobspec)["memory"] for said in made] == list(sizes.values())


# -- beside other plugins

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


@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
def test_an_option_that_another_plugin_has_gets_flux_cores_prefix(typed, env, tmp_path, order):
    (tmp_path / "other.py").write_text(OTHER)
    path = ":".join([str(tmp_path), env["FLUX_CLI_PLUGINPATH"]][::order])
    words = ["--locality=required", "--ex-within=rack", "--ex-memory=2G", "--memory=7", "--in=8"]
    made, refused, shown = typed(
        ["submit", "--dry-run", *words, "true"],
        ["submit", "--dry-run", "--ex-memory=40", "true"],
        ["submit", "--help"],
        FLUX_CLI_PLUGINPATH=path,
    )
    assert made.jobspec["attributes"]["system"]["site"] == ["7", "8"]
    assert made.options == {"locality": "required", "within": "rack"}
    assert slot(made.jobspec) == {"core": 1, "memory": 2}
    assert refused.refusal.startswith("--ex-memory: 40: ")
    assert "another plugin has --memory" in " ".join(shown.out.split())
    assert "--ex-locality" not in shown.out


def test_a_plugin_that_is_twice_on_the_path_is_there_once(submitted, env):
    path = env["FLUX_CLI_PLUGINPATH"]
    (said,) = submitted(["--same=os"], FLUX_CLI_PLUGINPATH=f"{path}:{path}")
    assert said.options == {"same": "os"}


# -- what is refused


def test_a_refusal_of_the_guide_is_the_line_beside_it(submitted):
    made = submitted(*(words for words, _ in REFUSALS))
    assert [said.refusal for said in made] == [said for _, said in REFUSALS]


#: What each option refuses in words of its own; of texts, see t/fluxless and test_job_options.
WRONG = [
    (["--locality=\x1b[31mred\n"], "--locality: '\\x1b[31mred\\n' is not"),
    (["--gpu-link=good"], "--gpu-link: 'good' is not nvlink, xgmi, xelink, fast or a number"),
    (["--gpu-link=" + "9" * 10_000], "--gpu-link: "),
    (["--same=driver:maybe"], "--same: 'driver:maybe' is not"),
    (["--within="], "--within: '' is not the name of a locality"),
    (["--segment=16"], "--segment: '16' is not a locality and a number of nodes"),
    (["--segment=nvl:4", "--switches=2"], "--segment: 'nvl:4' does not go with switches=2: "),
    (["--switches=1@soon"], "--switches: 'soon' is not a time such as 10m"),
    (["--switches=1@5", "--locality-wait=5m"], "--locality-wait says already how long"),
    (["--locality-wait=10"], "--locality-wait: '10' is not a time such as 10m"),
    (["--locality-wait=5m", "--locality=none"], "contradicts locality='none'"),
    (["--same-numa=yes"], "--same-numa: 'yes' is not one of preferred, required"),
    (["--gpu=num=\udcff"], "--gpu: column 5: num="),
    (["--gpu=gmodel=NVIDIAA100-80G"], "write gmodel=a100, and gmem for its memory"),
    (["--gpu=gmodel=nvidia"], "--gpu: gmodel=nvidia names no model"),
    (["--gpu=xgmi=yes", "--gpu-link=nvlink"], "--gpu: xgmi=yes contradicts --gpu-link"),
    (["--gpu=num=2", "-N1", "--gpus-per-node=2"], "--gpus-per-node says already"),
    (["--gpu=num=2", "-N1", "--tasks-per-node=2"], "take --gpus-per-node"),
    (["--gpu=num=2", "--resources-shape=slot/gpu"], "--resources-shape says already"),
    (["-S", "treepool=1", "--same=os"], "--setattr=treepool is not an object"),
    (["-S", "treepool.same=x", "--same=os"], "--same: contradicts --setattr=treepool.same"),
    (["-S", "treepool.level=socket", "--same-numa=required"], "contradicts level='socket'"),
    (["--gpu-link=50", "--resources-shape=slot/core=2"], "--gpu-link: the job asks for no GPU"),
    (["--allow-cxl", "-N1", "--exclusive"], "--allow-cxl: the job asks for no memory"),
    (["--memory=40"], "--memory: 40: a size such as 40G or 40GB is expected"),
    (["--resources-shape=slot/["], "bracket"),
    (
        ["--memory=1GB", "--resources-shape=slot/[core;memory=4]"],
        "--memory: --resources-shape says all that the job asks for",
    ),
]


def test_what_cannot_be_meant_is_refused_in_one_line(submitted):
    for (words, said), made in zip(WRONG, submitted(*(words for words, _ in WRONG))):
        assert said in made.refusal, words
    whole = ["-N1", "--exclusive", "--gpu-link=nvlink"]
    (may,) = submitted(whole)
    assert may.options == {"gpu_link": "nvlink"}, "whole nodes may have GPUs"


def test_where_treepool_cannot_be_imported_only_its_options_are_lost(env):
    # A checkout has not what treepool needs beside it, as an installed copy has.
    bare = {
        **env,
        "PYTHONPATH": "",
        "PYTHONNOUSERSITE": "1",
        "FLUX_PYTHONPATH_PREPEND": "",
        "FLUX_CLI_PLUGINPATH": str(PLUGINS),
    }

    def flux(*words):
        return subprocess.run(["flux", *words], env=bare, capture_output=True, text=True)

    if flux("python", "-c", "import attrs").returncode == 0:
        pytest.skip("Flux's own Python has attrs")
    assert flux("submit", "--dry-run", "true").returncode == 0
    refused = flux("submit", "--dry-run", "--same=os", "true").stderr
    assert refused.count("\n") == 1 and "attrs" in refused
    assert "treepool flux-env --check" in refused


# -- in an instance


def test_a_job_of_an_instance_has_what_its_options_say(small, idle):
    small.load("sched-simple")
    alone = small.with_env(FLUX_CLI_PLUGINPATH="")
    dry = ("submit", "--env=-*", "--dry-run", "--resources-shape=slot/node=2/core", "true")
    assert small.flux(*dry) == alone.flux(*dry), "other schedulers start as Flux does"
    small.load("sched-treepool")
    system = json.loads(small.flux(*dry))["attributes"]["system"]
    assert system["shell"]["options"]["per-resource"] == {"type": "node"}
    small.wait(small.submit("-N1", "-n1", "--exclusive"), "alloc")
    small.wait(small.submit("-c2"), "alloc")
    small.wait(small.submit("-c3"), "alloc")
    # Left is one node, with 2 cores in one NUMA domain and 1 in the other.
    waiting = small.submit("-c3", "--locality=required")
    assert small.waits(waiting)
    small.flux("cancel", waiting)
    ((_, cores, _),) = small.placed(small.submit("-c3", "--locality=preferred"))
    assert cores == "2-3,7"
    job = small.submit("--gpu=num=1:gmodel=H100")
    assert small.wait(job, "exception")["type"] == "alloc"
    jobs = small.submit("--cc=0-1", "--locality=required").split()
    jobs += small.flux("bulksubmit", "--locality=required", "-c{}", "true", ":::", "1", "2").split()
    made = [json.loads(small.flux("job", "info", one, "jobspec")) for one in jobs]
    assert [m["attributes"]["system"]["treepool"] for m in made] == [{"locality": "required"}] * 4
    assert [slot(m)["core"] for m in made] == [1, 1, 1, 2]


# -- the guide


def test_the_commands_of_the_guide_are_accepted_and_make_the_jobspec_that_it_shows(typed):
    lines = [shlex.split(line) for block in blocks(GUIDE, "sh") for line in block.splitlines()]
    assert {words[0] for words in lines} == {"flux"}
    made = typed(*([words[1], "--dry-run", *words[2:]] for words in lines))
    for said in made:
        assert (said.status, said.err) == (0, "")
    (shown,) = blocks(GUIDE, "json")
    (said,) = [said for said, words in zip(made, lines) if "--requires=host:n1" in words]
    system = said.jobspec["attributes"]["system"]
    assert {name: system[name] for name in ("constraints", "treepool")} == json.loads(shown)
    assert slot(said.jobspec) == {"core": 1, "gpu": 4}
