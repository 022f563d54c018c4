"""flux-core's own TreePool, judged by the vectors."""

import pytest


def test_flux_core_s_treepool_gives_what_rfc_49_prints(small):
    done = small.run("treepool", "conformance", "--with", "flux-core", timeout=300)
    if "No module named" in done.stderr:
        pytest.skip("this flux-core has no TreePool (0.87 is the first)")
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert "RFC 49: 20 of 20" in lines
    assert lines[-2].startswith("treepool: ") and "not judged" in lines[-1]
