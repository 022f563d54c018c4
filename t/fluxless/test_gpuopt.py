"""The text of ``flux submit --gpu``: which texts are one, and what they ask for."""

from __future__ import annotations

import pytest

from treepool.errors import InvalidOption
from treepool.flux import gpuopt
from treepool.flux.gpuopt import GpuOption
from work import Lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the seed's own
        ("num=2", GpuOption(2)),
        ("num=4:mode=exclusive", GpuOption(4)),
        ("num=4:mode=exclusive:nvlink=yes", GpuOption(4, "nvlink")),
        ("num=8:mode=exclusive:gmodel=A100", GpuOption(8, model="A100")),
        ("num=2:gmem=40GB", GpuOption(2, memory=38)),
        # the rest
        ("gmem=40GiB:num=1", GpuOption(1, memory=40)),
        ("num=2/task", GpuOption(2)),
        ("num=2/task:gmem=40G", GpuOption(2, memory=40)),
        ("xgmi=yes:nvlink=no", GpuOption(link="xgmi")),
        ("nvlink=no:xgmi=no", GpuOption()),
        ("mode=exclusive", GpuOption()),
        # what treepool gives anyway
        ("num=2:mode=exclusive_process:mps=no:j_exclusive=yes", GpuOption(2)),
        ("glink=yes:num=2", GpuOption(2, "fast")),
        ("glink=yes:xgmi=yes", GpuOption(link="xgmi")),
        ("glink=no", GpuOption()),
        ("gmodel=geforce-rtx-4090", GpuOption(model="geforce-rtx-4090")),
    ],
)
def test_pairs_in_any_order_are_an_option(text: str, expected: GpuOption) -> None:
    assert gpuopt.parse(text) == expected


@pytest.mark.parametrize(
    ("size", "gib"),
    [
        ("1B", 1),
        ("1073741825B", 2),
        ("80GB", 75),
        ("1.5TiB", 1536),
        ("0.1KB", 1),
        ("1PiB", 1 << 20),
        # LSF's letters count by 1024
        ("40G", 40),
        ("1.5T", 1536),
        ("40960M", 40),
        ("16g", 16),
    ],
)
def test_a_size_is_in_gib_rounded_up(size: str, gib: int) -> None:
    assert gpuopt.parse(f"gmem={size}").memory == gib


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "the end"),
        (":", 1, "':'"),
        ("num=4:", 7, "the end"),
        ("num=4::nvlink=yes", 7, "':'"),
        (" num=4", 1, "' '"),
        ("num:4", 4, "'='"),
        ("num=4:gpack=yes", 7, "unknown key 'gpack', known: num, mode, nvlink"),
        ("num=4:num=4", 7, "num is given twice"),
        ("num=0", 5, "num=0: a number"),
        ("num=04", 5, "num=04"),
        ("num=4/host", 5, "num counts GPUs per task: for GPUs per host take -N with --gpus-per-"),
        ("num=4/socket", 5, "num='4/socket': a number of GPUs"),
        ("j_exclusive=no", 13, "j_exclusive=no: treepool does not share GPUs"),
        ("glink=maybe", 7, "yes or no"),
        ("mps=yes,share", 5, "mps='yes,share': treepool starts no MPS daemon"),
        ("block=yes", 1, "write nothing: flux treepool bind gives tasks their GPUs in blocks"),
        ("gtile=2", 1, "--resources-shape=slot/socket=2/gpu=1"),
        ("gvendor=amd", 1, "write gmodel, or a property of the nodes: --requires=gpu-vendor-"),
        ("aff=yes", 1, "write nothing: cores and GPUs of a slot are near each other"),
        ("mig=2", 1, "slot/mig-1g.10gb/gpu"),
        ("num=", 5, "num=''"),
        ("num=4:mode=shared", 12, "mode=shared: treepool does not share GPUs"),
        ("nvlink=yes:xgmi=yes", 12, "both nvlink and xgmi"),
        ("gmodel=", 8, "name of a GPU model"),
        ("gmodel=A100 80", 8, "name of a GPU model"),
        ("gmem=40", 6, "40GB is expected; units: B, kB"),
        ("gmem=40Gb", 6, "a size such as 40G"),
        ("gmem=-4GB", 6, "a size"),
        ("gmem=0GB", 6, "more than nothing"),
        ("gmem=999999999999999999EiB", 6, "at most 1048576 GiB"),
        ("num=\u0664", 5, "num='\u0664'"),
    ],
)
def test_any_other_text_is_refused_with_the_column(text: str, column: int, words: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        gpuopt.parse(text)
    message = str(caught.value)
    assert message.startswith(f"column {column}: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text",
    ["num=" + "9" * 5_000_000, "gmem=" + "9" * 500, "num=1:" * 1_000_000, "x" * 500],
    ids=lambda text: f"{text[:6]}-{len(text)}",
)
def test_oversized_texts_fail_fast(text: str) -> None:
    with Lines() as work, pytest.raises(InvalidOption) as caught:
        gpuopt.parse(text)
    assert work.count < 100
    assert len(str(caught.value)) < 250
