"""The words of options that have a few values: localities, node policies, their earlier names.

Who reads options needs no engine: this imports nothing. ``choose/policy.py`` has the policies.
"""

from __future__ import annotations

#: Values of ``locality``, the modes: see doc/design.md, "On a node".
LOCALITIES = ("preferred", "required", "none")

#: The node policy that weighs locality against other costs (option ``straddle``), and all of them.
PACKING = "packing"
NODE_POLICIES = (
    PACKING,
    "best-fit",
    "node-fit",
    "first-fit",
    "worst-fit",
    "min-span",
    "best-locality",
)

#: Policies of earlier releases, and those to use now.
REPLACED = {"gpu-sparing": PACKING}

#: The default weights of fitness (choose/fitness.py).
ALPHA, BETA = 0.3, 0.5

#: The default weight of locality, in GPUs: how much fuller a node must be for a job to straddle.
STRADDLE = 10.0

#: The key in the R of a job.
JOB_KEYS = ("full", "none")
