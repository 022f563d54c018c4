"""The words of options that have a few values: localities, node policies, their earlier names.

Who reads options needs no engine: this imports nothing. ``choose/policy.py`` has the policies.
"""

from __future__ import annotations

#: Values of ``locality``, the modes: see doc/design.md, "On a node".
LOCALITIES = ("preferred", "required", "none")

#: The node policy that weighs locality against other costs (option ``straddle``), and all of them.
PACKING = "packing"
NODE_POLICIES = (PACKING, "best-fit", "first-fit", "worst-fit")

#: Policies of earlier releases, and those to use now.
REPLACED = {
    "gpu-sparing": PACKING,
    "node-fit": "best-fit",
    "min-span": "best-fit",
    "best-locality": PACKING,
}

#: Options of earlier releases, and what to do now.
GONE = dict.fromkeys(("alpha", "beta"), "the weights of fitness are fixed now, leave it out")

#: The default weight of locality, in GPUs: how much fuller a node must be for a job to straddle.
STRADDLE = 10.0

#: The key in the R of a job.
JOB_KEYS = ("full", "none")
