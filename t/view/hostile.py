"""Clusters whose names try to be something else, or that are larger than any picture."""

from made import nodes

#: Names that would end a script, a tag or an attribute, or move a terminal's cursor.
NAMES = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=2>',
    "' onmouseover=window.hacked=3 '",
    "]]><svg onload=window.hacked=4>",
    "<!--",
    "{{data}}",
    "\x1b[31mred\x07\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u2028\u2029",
    "数値🦆",
    "a" * 3000,
    "constructor",
    "__proto__",
)

#: Host names may be any printable ASCII but blanks, brackets and commas.
HOSTS = ("<script>window.hacked=5</script>", "\"'><b>", "&amp;{{title}}", "007")


def cluster(name):
    """Four nodes with odd hosts; a locality, a property, switches and racks of the given *name*.

    A locality is in the nodes or above them, so the names of switches and racks have an end of
    their own.
    """
    topo = {name: [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}
    switches = [{"name": name[:64], "ranks": "0-1"}, {"ranks": "2-3"}]
    # RFC 20 forbids some characters in properties.
    named = "".join(c for c in name if c not in "!&'\"^`|()") or "p"
    R = nodes("0-3", gpus="0-1", topo=topo, properties={named: "1"})
    R["execution"]["nodelist"] = [",".join(HOSTS)]
    R["scheduling"]["fabric"] = {f"{name}^": [{"name": name[:64], f"{name}~": switches}]}
    return R


def one_node(cores, topo):
    """One node of *cores* (an idset) divided as *topo*."""
    return nodes("0", cores, topo=topo)


def nested(levels):
    """A topo of that many localities inside each other, each with a core of its own."""
    topo = {"cores": "0"}
    for level in range(1, levels + 1):
        topo = {"cores": f"0-{level}", f"level{level}": [topo]}
    return topo


#: Nodes with more of something than can be drawn.
LARGE = {
    "cores": one_node("0-999999", {"numa": [{"cores": "0-499999"}, {"cores": "500000-999999"}]}),
    "domains": one_node("0-4999", {"l1": [{"cores": str(i)} for i in range(5000)]}),
    "levels": one_node("0-15", nested(15)),
    "long names": cluster("x" * 100_000),
}
