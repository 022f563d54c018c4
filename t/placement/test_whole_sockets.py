"""Which socket a job of one GPU gets: no rule that does not know the future leaves more whole ones.

A node has two sockets of four GPUs. Jobs of one GPU come at random times and end at random times.
What a rule does is a decision for each (GPUs used in one socket, in the other), so the best one can
be calculated: by value iteration, for the share of the time in which four GPUs are free, but no
whole socket.
"""

from itertools import product

import pytest

from placement.test_work import cluster, request
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import fit
from treepool.placement.pool import Pool

GPUS = 4
USED = list(product(range(GPUS + 1), repeat=2))

#: GPUs that are no more than the cores of a socket, two for each.
TYPE = compile_topo(
    {"socket": [{"cores": "0-7", "gpus": "0-3"}, {"cores": "8-15", "gpus": "4-7"}]}, 0xFFFF, 0xFF
)


def started(used):
    """The states that a job which starts can lead to, by the socket it gets."""
    return {
        socket: tuple(n + (i == socket) for i, n in enumerate(used))
        for socket in (0, 1)
        if used[socket] < GPUS
    }


def values(load):
    """How much worse than from an idle node it goes on from each state under the best rule.

    *load* is how many of the GPUs the jobs would use if none were refused.
    """
    worse = dict.fromkeys(USED, 0.0)
    for _ in range(1500):
        new = {}
        for used in USED:
            a, b = used
            start = load * 2 * GPUS / (load * 2 * GPUS + a + b)
            after = min((worse[one] for one in started(used).values()), default=worse[used])
            new[used] = (a + b <= GPUS and a > 0 and b > 0) + start * after
            for share, left in ((a, (a - 1, b)), (b, (a, b - 1))):
                if share:
                    new[used] += (1 - start) * share / (a + b) * worse[left]
        worse = {used: value - new[0, 0] for used, value in new.items()}
    return worse


def chosen(used):
    """The socket that treepool gives to the next job."""
    gpus = cores = 0
    for socket, n in enumerate(used):
        gpus |= ((0xF << n) & 0xF) << 4 * socket
        cores |= ((0xFF << 2 * n) & 0xFF) << 8 * socket
    found = fit(NodeState(TYPE, cores, gpus), request(Pool(cluster(2)), "slot/[core=2;gpu=1]").ask)
    return int(found.ids(0)[1] > 0xF)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.9])
def test_no_online_rule_has_a_whole_socket_free_more_often(load):
    worse = values(load)
    for used in USED:
        after = started(used)
        if after:
            best = min(worse[one] for one in after.values())
            assert worse[after[chosen(used)]] == pytest.approx(best, abs=1e-9), used
    assert worse[1, 1] > worse[2, 0] > 0, "it does matter which"
