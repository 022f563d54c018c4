"""``treepool explain``: why a job gets what it gets."""


def test_your_own_cluster_with_nodes_down_and_a_policy(treepool, write, R):
    path = write(R)
    result = treepool(
        "explain", "-R", path, "slot=1/core", "--down", "3", "--policy", "first-fit", "--verbose"
    )
    assert "n5: idle" in result.out
    assert "2 nodes, of which 1 is down" in result.out
    assert "first-fit: lowest rank first" in result.out
    kept = treepool("explain", "-R", path, "slot=1/core", "--constraint", '{"ranks": ["5"]}')
    assert "n5: idle" in kept.out
