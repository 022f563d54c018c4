"""sched-treepool under the name sched-fluxion-qmanager, with Fluxion's names of policies.

For flux-sched's own tests, see as-fluxion.sh.
"""

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux.sched import TreepoolScheduler

POLICIES = {"fcfs": "fifo", "hybrid": "conservative"}


def mod_main(h, *args):
    """Run the module with the policy and the depth of Fluxion's arguments, or of its table."""
    policy = h.conf_get("sched-fluxion-qmanager.queue-policy", default="fcfs")
    depth = []
    for arg in args:
        name, _, value = arg.partition("=")
        if name == "queue-policy":
            policy = value
        elif arg.startswith("policy-params=reservation-depth="):
            depth = [value]
    TreepoolScheduler(h, f"policy={POLICIES.get(policy, policy)}", *depth).run()
