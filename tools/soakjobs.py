"""Random jobs for the soak, in every form of doc/design.md; run by Flux's Python.

Each job carries in ``attributes.user.soak`` what it must get, for the checker to read in the KVS.
"""

from flux.job import JobspecV1

from soakcluster import QUEUES
from treepool import parse_shape

#: Seconds before its limit at which a job ends that keeps it: its start counts as well.
EARLY = 2.0

#: What the nodes are like: cores and GPUs of a node, and of its smallest domain, by cluster.
NODES = {"a": (120, 8, "numa", 15, 1), "b": (96, 4, "socket", 24, 1)}

#: What guests ask about.
SHAPES = ("slot=1/core=4", "slot=4/[core=2;gpu=1]", "slot=5/node{x}", "switch/node=4/slot=1/core=1")

JOB_OPTIONS = (
    {"locality": "required"},
    {"locality": "none"},
    {"locality": "preferred"},
    {"topology_policy": "best-effort"},
    {"topology_policy": "restricted"},
)


def exactly(cores, gpus, nodes=None):
    """What a job must get if the numbers leave no choice."""
    wanted = {"cores": [cores, cores], "gpus": [gpus, gpus]}
    return {**wanted, "nodes": [nodes, nodes]} if nodes else wanted


def joined(chance):
    """(shape, what it must get, job options) of some form that names the fabric."""
    c = chance.choice([1, 2, 5])
    forms = [
        (
            f"switch=2/node=2/slot=1/core={c}",
            exactly(4 * c, 0, 4),
            {"spread": ["switch", 2, 2]},
            {},
        ),
        (f"slot=2/switch/node=2/core={c}", exactly(4 * c, 0, 4), {"groups": ["switch", 2]}, {}),
        (f"switch/node=3/slot=1/core={c}", exactly(3 * c, 0, 3), {"within": ["switch"]}, {}),
        (f"node=4/slot=1/core={c}", exactly(4 * c, 0, 4), {"within": ["rack"]}, {"within": "rack"}),
        (f"slot=9/core={c}", exactly(9 * c, 0), {"within": ["switch"]}, {"within": "switch"}),
        (
            *(f"node=4/slot=1/core={c}", exactly(4 * c, 0, 4)),
            *({"groups": ["switch", 2]}, {"segment": "switch:2"}),
        ),
    ]
    shape, amounts, wanted, said = chance.choice(forms)
    return shape, {**amounts, **wanted}, said


def shaped(chance, cluster):
    """(shape, what it must get) of some form that fits on 6 nodes."""
    cores, gpus, name, dcores, dgpus = NODES[cluster]
    n, c, m = chance.choice([1, 1, 2, 3, 4]), chance.choice([1, 2, 3, 5]), chance.choice([1, 2])
    g = chance.choice([1, 1, 2])
    k = chance.choice([1, 2])
    hardware = {"a": "storage=1{unit:TiB}", "b": "memory=64"}[cluster]
    forms = [
        (f"slot={n}/[core={c};gpu={g}]", exactly(n * c, n * g)),
        (f"slot={n}/core={c}", exactly(n * c, 0)),
        (f"slot={n}/core={dcores + 1}", exactly(n * (dcores + 1), 0)),
        (f"slot={n}/{name}{{x}}", exactly(n * dcores, n * dgpus)),
        (f"slot={n}/{name}=2{{x}}", exactly(2 * n * dcores, 2 * n * dgpus)),
        (f"slot={n}/{name}{{x}}/core={c}", exactly(n * dcores, n * dgpus)),
        (f"slot={n}/{name}={k}/[core={c};gpu=1]", exactly(n * k * c, n * k)),
        (f"{name}=2/slot={n}/core=3", exactly(6 * n, 0)),
        (f"node={m}/{name}={k}/slot={n}/core=3", exactly(3 * m * k * n, 0, m)),
        (f"slot={n}/node={m}/core={c}", exactly(n * m * c, 0)),
        (f"node={m}/slot={n}/[core={c};gpu=1]", exactly(m * n * c, m * n, m)),
        (f"slot={m}/node{{x}}", exactly(m * cores, m * gpus, m)),
        (f"node={m}{{x}}/slot=1/core={c}", exactly(m * cores, m * gpus, m)),
        (f"slot={n}/gpu={g}", {"cores": [n, n * g * dcores], "gpus": [n * g, n * g]}),
        (f"slot={n}/[core={c};{hardware}]", exactly(n * c, 0)),
        (f"slot=2-8/core={c}", {"cores": [2 * c, 8 * c], "gpus": [0, 0]}),
        (f"slot=2-16:2:*/core={c}", {"cores": [2 * c, 16 * c], "gpus": [0, 0]}),
        (f"slot=1,4,9/core={c}", {"cores": [c, 9 * c], "gpus": [0, 0]}),
        (f"node=2-6/slot=1/core={c}", {"cores": [2 * c, 6 * c], "gpus": [0, 0], "nodes": [2, 6]}),
    ]
    if cluster == "a":
        both = f"slot={n}/socket/numa=2/[core=4;gpu=1]", exactly(n * 8, n * 2)
        forms += [both, (f"slot={m}/socket{{x}}", exactly(m * 60, m * 4))]
    return chance.choice(forms)


def wide(chance, cluster, nodes):
    """(shape, what it must get) of a form for a large part of the cluster."""
    cores, gpus, name, dcores, dgpus = NODES[cluster]
    many = chance.randint(max(1, nodes // 8), max(1, nodes // 2))
    forms = [
        (f"node={many}/slot=1/[core=2;gpu=1]", exactly(2 * many, many, many)),
        (f"slot={many}/node{{x}}", exactly(many * cores, many * gpus, many)),
        (f"slot={many}/{name}{{x}}", exactly(many * dcores, many * dgpus)),
        (f"slot={many}/[core=3;gpu=1]", exactly(3 * many, many)),
        (f"node={max(1, many // 2)}+/slot=1/core=2", {"nodes": [max(1, many // 2), nodes]}),
    ]
    return chance.choice(forms)


def hard(chance, cluster):
    """(shape, what it must get) of a form on one node that needs a long search."""
    forms = {
        "a": [
            ("node/slot=5/[numa=3/core=2;numa=2/core=3;numa=2/core=1]", exactly(70, 0, 1)),
            ("node/slot=4/[numa=3/core=3;numa=2/core=5]", exactly(76, 0, 1)),
        ],
        "b": [
            ("node/slot=5/[socket=2/core=3;socket/core=2]", exactly(40, 0, 1)),
            ("node/slot=6/[socket=3/core=2;socket/core=3]", exactly(54, 0, 1)),
        ],
    }
    return chance.choice(forms[cluster])


def never(cluster, nodes):
    """Shapes that no such cluster could serve."""
    cores, gpus, name, dcores, _ = NODES[cluster]
    return (
        f"slot=1/core={cores + 1}",
        f"slot={nodes + 1}/node{{x}}",
        f"slot=1/{name}/core={dcores + 1}",
        f"slot=1/gpu={gpus + 1}",
    )


def options(chance, cluster):
    """(arguments of JobspecV1.from_command, what it must get): ``-n -c -g -N --exclusive``."""
    cores, gpus, _, _, _ = NODES[cluster]
    n, c, g = chance.choice([1, 2, 4, 6]), chance.choice([1, 2, 7, 16]), chance.choice([0, 0, 1, 2])
    more = {"gpus_per_task": g} if g else {}
    kind = chance.random()
    if kind < 0.6:
        return {"num_tasks": n, "cores_per_task": c, **more}, exactly(n * c, n * g)
    nodes = max(1, n // 2)
    placed = {"num_tasks": n, "cores_per_task": c, "num_nodes": nodes}
    if kind < 0.8:
        return placed, exactly(n * c, 0, nodes)
    return {**placed, "exclusive": True}, exactly(nodes * cores, nodes * gpus, nodes)


def constraint(chance, nodes):
    """(RFC 31 constraint that at least half of the nodes satisfy, [first, last] of these)."""
    first = chance.randint(0, nodes // 4)
    last = chance.randint(first + nodes // 2, nodes - 1)
    ranks, hosts = {"ranks": [f"{first}-{last}"]}, {"hostlist": [f"fake[{first}-{last}]"]}
    outside = [
        f"{a}-{b}" if a < b else str(a)
        for a, b in ((0, first - 1), (last + 1, nodes - 1))
        if a <= b
    ]
    without = {"not": [{"ranks": [",".join(outside)]}]} if outside else ranks
    either = {"or": [ranks, {"properties": ["nobody-has-this"]}]}
    return chance.choice([ranks, hosts, without, {"and": [ranks, hosts]}, either]), [first, last]


def random_job(chance, cluster, nodes, longest):
    """A jobspec (JobspecV1) of some kind, for *longest* seconds at most."""
    kind = chance.random()
    spec = JobspecV1.from_command(["true"], num_tasks=1)
    shape, arguments, said = None, None, {}
    if kind < 0.03:
        shape, wanted = chance.choice(never(cluster, nodes)), {"infeasible": True}
    elif kind < 0.09:
        shape, wanted = wide(chance, cluster, nodes)
    elif kind < 0.2:
        shape, wanted, said = joined(chance)
    elif kind < 0.26:
        shape, wanted = hard(chance, cluster)
    elif kind < 0.7:
        shape, wanted = shaped(chance, cluster)
    else:
        arguments, wanted = options(chance, cluster)
        spec = JobspecV1.from_command(["true"], **arguments)
    if shape:
        spec.jobspec["resources"] = parse_shape(shape)
        spec.jobspec["tasks"][0]["slot"] = "default"
    wanted = {**wanted, "form": shape or str(arguments)}
    # Options could make a form infeasible that spans domains, so only these have one.
    if kind >= 0.7 and "exclusive" not in arguments and chance.random() < 0.3:
        said = chance.choice(JOB_OPTIONS)
    if said:
        spec.setattr("system.treepool", said)
        wanted["form"] += f" {said}"
    wanted["queue"] = chance.choice(["batch", "large", "express"])
    if kind >= 0.09 and chance.random() < 0.2:
        allowed, wanted["ranks"] = constraint(chance, nodes)
        spec.setattr("system.constraints", allowed)
    elif kind >= 0.09 and chance.random() < 0.4:
        wanted.update(queue="debug", ranks=[0, nodes // 2 - 1])
    return finish(spec, wanted, chance.choice([0, 120, 600, 3600]), run_time(chance, longest))


def traced_job(chance, cluster, nodes, longest, day):
    """A jobspec like one of *day*: [share of the nodes, seconds it ran, its limit] each.

    In fast motion: the longest limit of the day becomes *longest*.
    """
    cores, gpus, _, _, _ = NODES[cluster]
    share, ran, limit = chance.choice(day)
    pace = longest / max(job[2] for job in day)
    many = min(nodes - 4, max(1, round(share * nodes)))
    spec = JobspecV1.from_command(["true"], num_tasks=1)
    shape = f"slot={many}/node{{x}}"
    spec.jobspec["resources"] = parse_shape(shape)
    spec.jobspec["tasks"][0]["slot"] = "default"
    wanted = {**exactly(many * cores, many * gpus, many), "form": shape, "queue": "batch"}
    allowed, runs = EARLY + limit * pace, max(0.01, min(ran, limit) * pace)
    return finish(spec, wanted, allowed, runs)


def limited_job(chance, cluster, nodes):
    """A jobspec that runs up to its limit; half of them want a large part of the cluster."""
    large = chance.random() < 0.5
    shape, wanted = wide(chance, cluster, nodes) if large else shaped(chance, cluster)
    wanted["queue"] = chance.choice(["batch", "large", "express"] if large else QUEUES)
    spec = JobspecV1.from_command(["true"], num_tasks=1)
    spec.jobspec["resources"] = parse_shape(shape)
    spec.jobspec["tasks"][0]["slot"] = "default"
    limit = chance.randint(4, 8)
    return finish(spec, {**wanted, "form": shape}, limit, limit - EARLY)


def whole_cluster(nodes):
    """A jobspec for so many *nodes*, to see whether really everything is free."""
    spec = JobspecV1.from_command(["true"], num_tasks=1)
    shape = f"slot={nodes}/node{{x}}"
    spec.jobspec["resources"] = parse_shape(shape)
    spec.jobspec["tasks"][0]["slot"] = "default"
    return finish(spec, {"nodes": [nodes, nodes], "form": shape, "queue": "batch"}, 60, 0.01)


def run_time(chance, longest):
    """How long a job seems to run, in seconds: mostly short, some for longer than a restart."""
    some, long = chance.uniform(0.01, longest / 3), chance.uniform(longest / 3, longest)
    return chance.choice([0.01, 0.1, 0.3, 1, 2, some, long])


def finish(spec, wanted, duration, seconds):
    """*spec* with what all jobs have."""
    spec.duration = duration
    spec.setattr("system.exec.test", {"run_duration": f"{seconds:.3f}s"})
    spec.setattr("system.cwd", "/")
    spec.setattr("system.queue", wanted["queue"])
    spec.setattr("user.soak", wanted)
    return spec
