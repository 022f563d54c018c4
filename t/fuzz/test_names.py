"""Names that try to be markup, terminal control or shell text are inert in every output."""

import json
import re
import unicodedata
from xml.etree import ElementTree

import pytest

from depth import some
from fuzz import instance
from fuzz.seeds import SNAPSHOT, XML
from treepool.cli.main import SUBCOMMANDS, UNLISTED
from view.hostile import HOSTS, NAMES, cluster

#: More of the kind, for terminals and shells.
MORE = (
    "\x1b]8;;http://x\x07link\x1b]8;;\x07",
    "\x9b31m",
    "\u2066a\u2069\u200f\u061c",
    "$(touch hacked)",
    "`touch hacked`",
    "; touch hacked #",
    "\r\nR_lite: all",
    "%s%n{0}",
    "--help",
    "../../etc/passwd",
)

ALL = some((*NAMES, *MORE))


def _short(name):
    return ascii(name[:20])


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Each command runs in an empty folder."""
    monkeypatch.chdir(tmp_path)


def inert(text):
    """Whether *text* has nothing that moves a cursor, colours, or turns the reading direction.

    Nor may a name begin a line of its own.
    """
    kinds = {unicodedata.category(c) for c in text if c != "\n"}
    return not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"} and "\nR_lite: all" not in text


def saved(value, name="R.json"):
    with open(name, "w", encoding="utf-8") as file:
        json.dump(value, file)
    return name


#: Of every command, words with which it prints what is in files, or what an instance says. {R} is a
#: cluster, {name} the name itself.
COMMANDS = {
    "alloc": (
        "alloc slot=1/core -R {R}",
        "alloc --json slot=1/core -R {R}",
        "alloc --R slot=1/core -R {R}",
        "alloc --constraint {name} slot=1/core -R {R}",
        "alloc --instance slot=1/core slot=1/core",
        "alloc --instance --json slot=1/core slot=1/core",
    ),
    "encode": ("encode --dry-run -R {R} --fabric {fabric}", "encode -R {R} --fabric {fabric}"),
    "digest": ("digest",),
    "show": (
        "show -R {R}",
        "show --ranks 0-3 -R {R}",
        "show --json -R {R}",
        "show --domain {name} -R {R}",
        "show --instance",
        "show --instance --json",
    ),
    "status": (
        "status --jobs --users",
        "status --jobs --users --json",
        "status --gpus --jobs --domains --users",
        "status --gpus --jobs --domains --users --json",
        "status --prometheus --users",
        "status --jobs -no {{name}}{{user}}{{note}}",
    ),
    "snapshot": ("snapshot s.json", "snapshot {name}", "snapshot -"),
    "window": (
        "window list",
        "window list --json",
        "window remove {name}",
        "window add --hosts {name} --start 1 --end 2",
        "window add --hosts n --start 1 --end 2 --name {name}",
    ),
    "explain": (
        "explain slot=1/gpu -R {R} --verbose",
        "explain slot=1/gpu=9 -R {R}",
        "explain --job {name}",
        "explain --job {name} --json",
        "explain --instance slot=1/gpu=9 --queue {name} --verbose",
        "explain --instance slot=1/gpu=9 --json",
    ),
    "advise": ("advise -R {R}", "advise --json -R {R}"),
    "replay": (
        "replay --synthetic 9 -R {R}",
        "replay --synthetic 9 --json -R {R}",
        "replay --synthetic 9 --print -R {R}",
    ),
    "validate": ("validate {R}", "validate {name}"),
    "subinstance": ("subinstance {R}",),
    "bind": ("bind --print --R {R}",),
    "where": (
        "where -R {R}",
        "where --json -R {R}",
        "where --hostfile -R {R}",
        "where --env -R {R}",
        "where",
        "where --env",
    ),
    "verify": ("verify --R {R}",),
    "conformance": ("conformance {R}", "conformance {name}"),
    "demo": (),
    "flux-env": ("flux-env --check --prefix {name}", "flux-env --prefix {name}"),
    "completion": ("completion bash", "completion {name}"),
}


def test_every_command_is_here():
    assert sorted(COMMANDS) == sorted(name for name, *_ in (*SUBCOMMANDS, *UNLISTED))


@pytest.mark.parametrize("name", ALL, ids=_short)
@pytest.mark.parametrize(
    "words", [words for several in COMMANDS.values() for words in several], ids=str
)
def test_what_a_command_prints_of_a_cluster_or_an_instance_is_inert(
    treepool, monkeypatch, words, name
):
    instance.pretend(monkeypatch, name)
    given = {"R": saved(cluster(name)), "name": name}
    if "{fabric}" in words:
        hosts = {host: {"rack": name, f"{name}~": name} for host in HOSTS}
        given["fabric"] = saved(hosts, "fabric.json")
    result = treepool(*(word.format(**given) for word in words.split()))
    assert result.status in (0, 1, 2), result.err
    # A script of a shell has tabs, and is treepool's own.
    assert inert(result.out if words != "completion bash" else result.out.replace("\t", ""))
    assert inert(result.err)
    assert "Traceback" not in result.err


def test_the_instance_is_answered_not_refused(treepool, monkeypatch):
    """So that the test above sees the names."""
    instance.pretend(monkeypatch, "name")
    for words in (
        "status --jobs --users",
        "status --gpus --jobs --domains --users",
        "alloc --instance slot=1/core slot=1/core",
        "show --instance",
        "window list",
        "explain --job f1",
        "explain --instance slot=1/gpu=9",
        "status --prometheus",
        "where",
    ):
        assert "name" in treepool(*words.split()).out, words


@pytest.mark.parametrize("name", ALL, ids=_short)
def test_a_shape_or_jobspec_with_the_name_is_answered_inertly(treepool, name):
    spec = {
        "version": 1,
        "resources": [{"type": name, "count": 1, "label": name}],
        "attributes": {"system": {"duration": 0, name: name, "treepool": {name: name}}},
    }
    for argv in (
        ("alloc", "--cluster", "a", "--", f"slot=1/{name}"),
        ("alloc", "--cluster", "a", "--", "slot=1/" + json.dumps(name)),
        ("alloc", "--cluster", "a", "--json", "--", "slot=1/" + json.dumps(name)),
        ("alloc", "--cluster", "a", "--jobspec", saved(spec, "job.json")),
        ("alloc", "--cluster", "a", "--locality", name, "slot=1/core"),
        ("alloc", "--cluster", "a", f"--constraint={name}", "slot=1/core"),
    ):
        result = treepool(*argv)
        assert result.status in (0, 1, 2)
        assert inert(result.out), argv
        assert inert(result.err), argv


@pytest.mark.parametrize("name", ALL, ids=_short)
def test_a_test_vector_with_the_name_is_played_inertly(treepool, name):
    expected = {"R_lite": [{"rank": "0", "children": {"core": "0"}}]}
    steps = [
        {"id": name, "shape": name, "expect": {"error": name}, "rationale": name},
        {"id": "x", "shape": "slot=1/core", "expect": expected, "rationale": name},
    ]
    vectors = {
        "title": name,
        "source": name,
        "cluster": {"R": cluster("numa")},
        "vectors": steps,
    }
    for argv in (("conformance",), ("validate",)):
        result = treepool(*argv, saved(vectors, "v.json"))
        assert inert(result.out + result.err), argv
    steps[0]["expect"] = {"error": "invalid"}
    result = treepool("conformance", saved(vectors, "v.json"))
    assert inert(result.out + result.err)


@pytest.mark.parametrize("name", some(ALL), ids=_short)
def test_a_trace_with_the_name_is_played_inertly(treepool, name):
    jobs = [
        {"submit": 0, "duration": 9, "shape": "slot=1/core", "id": name[:128]},
        {"submit": 1, "duration": 9, "shape": "slot=9/core=9", "id": name[:127] + "x"},
        {"submit": 2, "duration": 9, "shape": f"slot=1/{json.dumps(name)}/core"},
        {"submit": 3, "duration": 9, "shape": "slot=1/core", "constraint": {"properties": [name]}},
        {"submit": 4, "duration": 9, "shape": "slot=1/core", name: name},
        {"submit": 5, "duration": 9, "shape": "slot=1/core", "locality": name},
        {"submit": 6, "duration": 9, "shape": "slot=1/core", "queue": name[:128]},
        {"submit": 7, "duration": 9, "shape": "slot=1/core", "account": name[:128]},
    ]
    R = saved(cluster(name))
    for chosen in (jobs[:2], *([job] for job in jobs)):
        with open("trace.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(job) + "\n" for job in chosen)
        by = ("--by", "queue", "--by", "account")
        result = treepool("replay", "-R", R, "trace.jsonl", "--html", "p.html", *by)
        assert result.status in (0, 1), result.err
        assert inert(result.out + result.err), chosen
        if result.status == 0:
            assert_inert_page("p.html")


@pytest.mark.parametrize("name", some(ALL), ids=_short)
def test_a_snapshot_with_the_name_is_shown_inertly(treepool, name):
    word = name[:128]
    job = {"user": word, "name": word}
    waits = {**job, "queue": word, "priority": 1, "submit": 0, "shape": "slot=1/core=4"}
    value = {
        **json.loads(SNAPSHOT),
        "R": cluster(name),
        "options": {},
        "down": "3",
        "queues": {word: {"policy": "easy", "parent": word}},
        "windows": [
            {"name": "w", "hosts": HOSTS[0], "start": 999, "end": 2000, "queues": ["a"]},
        ],
        "running": [{**job, "job": word, "parts": [["0-1", "0-3", "0"]], "end": 1500}],
        "other": [["3", "0-7", ""]],
        "pending": [
            {**waits, "job": f"{word[1:]}p"},
            {**waits, "job": f"{word[1:]}q", "shape": "slot=9/core"},
        ],
        "treepool": word,
    }
    path = saved(value, "snapshot.json")
    for argv in (
        ("validate", path),
        ("show", "--snapshot", path, "--svg", "S.svg", "--html", "S.html"),
        ("show", "--snapshot", path),
        ("show", "--snapshot", path, "--json"),
        ("alloc", "--snapshot", path, "slot=9/core"),
        ("explain", "--snapshot", path, "slot=1/core=5"),
        ("explain", "--snapshot", path, f"--job={word[1:]}p"),
        ("explain", "--snapshot", path, f"--job={word}"),
        ("explain", "--snapshot", path, f"--job={name}"),
        ("replay", "--snapshot", path, "--html", "p.html"),
        ("replay", "--snapshot", path, "--json"),
    ):
        result = treepool(*argv)
        assert result.status in (0, 1), result.err
        assert inert(result.out + result.err), argv
    assert_inert_picture("S.svg")
    assert_inert_page("S.html")
    assert_inert_page("p.html")


@pytest.mark.parametrize("name", ALL, ids=_short)
def test_hardware_with_the_name_is_encoded_inertly(treepool, name):
    from xml.sax.saxutils import quoteattr

    allowed = "".join(c if c >= " " or c in "\t\r\n" else "?" for c in name)
    xml = XML.replace('value="n"', f"value={quoteattr(allowed)}")
    xml = xml.replace('value="A100"', f"value={quoteattr(allowed)}")
    with open("node.xml", "w", encoding="utf-8") as file:
        file.write(xml)
    good = treepool("encode", "--dry-run", "--properties", "--hosts", "n", "--xml", "node.xml")
    assert good.status == 0, good.err
    assert inert(good.out + good.err)
    for argv in (
        ("encode", "--dry-run", "--xml", "node.xml"),
        ("encode", "--dry-run", "--properties", "--xml", "node.xml"),
        ("encode", "--dry-run", "--hosts", name, "--xml", "node.xml"),
    ):
        result = treepool(*argv)
        assert result.status in (0, 1, 2), result.err
        assert inert(result.out + result.err), argv


@pytest.mark.parametrize("name", ALL, ids=_short)
def test_pictures_hold_the_name_as_text(treepool, name):
    path = saved(cluster(name))
    drawn = treepool("show", "--svg", "R.svg", "--html", "R.html", "-R", path)
    assert drawn.status == 0, drawn.err
    assert_inert_picture("R.svg")
    assert_inert_page("R.html")


def assert_inert_picture(svg):
    """That an SVG file has no element or script that a name made."""
    for element in ElementTree.parse(svg).iter():
        assert element.tag.rpartition("}")[2] not in ("script", "img", "foreignObject", "a")
        assert not [key for key in element.attrib if key.startswith("on")]


def assert_inert_page(html):
    """That an HTML file has no element or script that a name made."""
    with open(html, encoding="utf-8") as file:
        page = file.read()
    assert "window.hacked" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", scripts(page))
    # Scripts in a picture that is an image never run.
    plot = r'<img src="data:image/svg\+xml;base64,[\w+/=]*" alt="[^"<>]*">'
    assert "<img" not in re.sub(plot, "", page)
    assert "<script>window" not in page


def scripts(page):
    """All that a page would run."""
    return "\n".join(re.findall(r"<script[^>]*>(.*?)</script>", page, re.S))


def test_inert_knows_control_characters():
    assert inert("plain, ünïcode: 数値\n")
    for bad in ("\x1b[0m", "\r", "\x07", "\u202e", "\u2028", "\ud800", "\x9b"):
        assert not inert(bad)
