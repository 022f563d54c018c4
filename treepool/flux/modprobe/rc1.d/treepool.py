"""Which scheduler an instance does not start by itself: Fluxion, where R has a TreePool key.

Fluxion ends the start of an instance whose R has such a key. Its modules are therefore taken out of
the choice, so that the instance starts what it would start if Fluxion were not installed. An
instance whose configuration names a scheduler is left alone. Flux calls ``setup`` before it loads
modules (flux-modprobe(1)). This file needs nothing of treepool: it works where that is not there.
"""

import json

#: The modules of Fluxion, of which each needs one that reads R.
FLUXION = ("sched-fluxion-resource", "sched-fluxion-feasibility", "sched-fluxion-qmanager")

#: The writer of the key, see RFC 20.
WRITER = "TreePool"


def setup(context):
    """Take Fluxion out of the choice where it cannot start."""
    if context.rank != 0 or context.conf_get("modules.alternatives.sched") is not None:
        return
    modules = [name for name in FLUXION if context.modprobe.has_task(name)]
    if not modules:
        return
    try:
        found = has_key(context)
    except Exception:  # would end the start: the module that reads R says what is wrong with it
        return
    if found:
        for name in modules:
            context.modprobe.disable(name)
        why = "R has a TreePool key, which Fluxion cannot read: another scheduler is loaded"
        context.handle.log(6, f"treepool: {why}")


def has_key(context):
    """Whether the R that this instance will have has a TreePool key."""
    conf = context.conf_get("resource", default={})
    if "scheduling" in conf:
        return by_treepool(loaded(text_of(conf["scheduling"])))
    if "config" in conf:
        return False
    if "path" in conf:
        return r_by_treepool(loaded(text_of(conf["path"])))
    if conf.get("rediscover") or context.attr_get("jobid") is None:
        return False
    R = loaded(text_from_parent(context))
    return r_by_treepool(R) and ranks_in(R) == int(context.attr_get("size"))


def text_of(path):
    """The text of a file of the configuration."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def loaded(text):
    """The JSON in *text*; None if no TreePool key can be there, as parsing a large R takes time."""
    return json.loads(text) if WRITER in text else None


def r_by_treepool(R):
    """Whether *R* has a key of TreePool."""
    return isinstance(R, dict) and by_treepool(R.get("scheduling"))


def by_treepool(key):
    """Whether the scheme of the URI that names the writer of *key* is TreePool."""
    writer = key.get("writer") if isinstance(key, dict) else None
    return isinstance(writer, str) and writer.partition(":")[0] == WRITER


def text_from_parent(context):
    """The R that the enclosing instance gave to this one."""
    import flux
    from flux.job import JobID

    parent = flux.Flux(context.attr_get("parent-uri"))
    question = {"id": int(JobID(context.attr_get("jobid"))), "keys": ["R"], "flags": 0}
    return parent.rpc("job-info.lookup", question).get()["R"]


def ranks_in(R):
    """How many ranks *R* has; Flux drops an R that has not one for each broker."""
    from flux.idset import IDset

    return sum(IDset(entry["rank"]).count() for entry in R["execution"]["R_lite"])
