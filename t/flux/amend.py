"""For fake-resources.amend-r: gives R the key in TREEPOOL_TEST_KEY, its one topo on all ranks.

It also gives it the properties in TREEPOOL_TEST_PROPERTIES.

Runs in Flux's Python, before anything of treepool does.
"""

import json
import os


def amend(R, hwloc_xml=None):
    """R with the key."""
    if "TREEPOOL_TEST_KEY" in os.environ:
        key = json.loads(os.environ["TREEPOOL_TEST_KEY"])
        ranks = ",".join(entry["rank"] for entry in R["execution"]["R_lite"])
        R["scheduling"] = {
            **key,
            "children": [{"ranks": ranks, "topo": key["children"][0]["topo"]}],
        }
    if "TREEPOOL_TEST_PROPERTIES" in os.environ:
        R["execution"]["properties"] = json.loads(os.environ["TREEPOOL_TEST_PROPERTIES"])
    return R
