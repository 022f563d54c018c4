"""For fake-resources.amend-r: gives R the graph that Fluxion makes of it: nodes, cores, GPUs."""

import json
import subprocess


def amend(R, hwloc_xml=None):
    """R with the graph."""
    made = subprocess.run(
        ["flux", "ion-R", "encode"], input=json.dumps(R), capture_output=True, text=True, check=True
    )
    return json.loads(made.stdout)
