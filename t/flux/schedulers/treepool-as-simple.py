"""sched-treepool under the name sched-simple, which flux-core's tests of jobs load.

For tests: a copy under that name, in front of FLUX_MODULE_PATH, is loaded instead.
"""

import os

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux.sched import mod_main  # noqa: F401

with open(os.environ["TREEPOOL_TEST_LOADED"], "a") as loaded:
    print("sched-treepool", file=loaded)
