"""What an explanation says of the domains above the nodes."""

from __future__ import annotations

from placement.test_job_fabric import cluster
from view.test_explain import told, words

CELLS = {
    "cell": [
        {"name": "c0", "switch": [{"name": "s0", "ranks": "0-3"}, {"name": "s1", "ranks": "4-7"}]},
        {"name": "c1", "switch": [{"ranks": "8-11"}, {"name": "s3", "ranks": "12-15"}]},
    ]
}
R = cluster(CELLS, 16)


def test_the_domain_of_a_job_is_named_with_its_free_nodes():
    found = told(R, "node=2/slot/core=4", ["node=1/slot/core=4"])
    assert found.domains == ("switch s0 in cell c0: 3 of 4 nodes free, the fullest that has room",)
    assert found.domains[0] in words(found)


def test_a_job_over_several_domains_takes_all_of_the_first_ones():
    found = told(R, "node=10/slot/core=4")
    assert found.domains == (
        "switch s0 in cell c0: 4 of 4 nodes free, all that it can give",
        "switch s1 in cell c0: 4 of 4 nodes free, all that it can give",
        "switch of rank 8 in cell c1: 4 of 4 nodes free, the fullest that has room for the rest",
    )


def test_without_a_fabric_or_without_locality_nothing_is_said_of_domains():
    assert told(R, "node=2/slot/core=4", locality="none").domains == ()
    flat = {**R, "scheduling": {"writer": "TreePool", "children": []}}
    assert told(flat, "node=2/slot/core=4").domains == ()


def test_a_request_that_no_domain_can_serve_is_told_the_number():
    reason = told(R, "switch/node=5/slot/core").reason
    assert str(reason) == "no switch has 5 nodes: the largest has 4"
    assert (reason.code, reason.subject, reason.need, reason.have) == ("nodes", "switch", 5, 4)


def test_a_node_in_another_domain_is_not_said_to_be_one_too_many():
    found = told(R, "node=2/slot/core=1", ["slot/core=3", "node=3/slot/core=4"])
    why = "it could serve, but is not in the domain that was chosen, or not needed there"
    assert why in [one.why for one in found.passed]
