"""``cores-with-gpus`` in a broker."""

import json


def test_where_a_site_says_so_a_gpu_brings_its_share_of_cores_if_no_c_is_typed(small):
    with small.configured(**{"sched-treepool": {"cores-with-gpus": "share"}}) as instance:

        def cores(*words):
            placed = instance.placed(instance.submit(*words))
            instance.cancel_all()
            return [cores for _, cores, _ in placed]

        assert cores("-g1") == ["0-3"]
        assert cores("-n2", "-g1") == ["0-7"]
        assert cores("--gpu=num=2") == ["0-7"]
        assert cores("-g1", "-c1") == ["0"]
        assert cores("-n1") == ["0"]
        said = instance.run("submit", "--test-only", "-g1", "true")
        assert "would start now\n     on fake0/core[0-3],gpu0\n" in said.stdout
        typed = instance.run("submit", "-g1", "--dry-run", "true")
        options = json.loads(typed.stdout)["attributes"]["system"]["treepool"]
        assert (options, typed.stderr) == ({"cores": "share"}, "")
