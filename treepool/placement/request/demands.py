"""Demands: what a job asks of the memory and GPUs of its slots, and of the links between GPUs."""

from __future__ import annotations

import math
from typing import Iterator

import attrs

from treepool.placement.request.job_options import JobOptions
from treepool.placement.request.need import Demand, Need


def with_demands(need: Need, options: JobOptions, whole: bool, growing: bool) -> Need:
    """A slot's *need* with what *options* demand of its memory and GPUs.

    With *whole*, *need* is the least that an entire node must have. With *growing*, a slot may get
    more GPUs than *need* says. A demand without an effect is omitted, because equal needs share
    their results: for example, one GPU has no link to another.
    """
    demand, gpu_memory, allow_cxl = None, options.gpu_memory, options.allow_cxl
    linked = options.gpu_gbps > 0 or options.gpu_link_type != ""
    if linked and (whole or growing or _most_gpus(need) > 1):
        demand = Demand(options.gpu_gbps, options.gpu_link_type)

    def noted(need: Need, whole: bool) -> Need:
        takes_gpus = whole or need.gpus > 0
        return attrs.evolve(
            need,
            parts=tuple(
                attrs.evolve(part, need=noted(part.need, part.whole)) for part in need.parts
            ),
            allow_cxl=allow_cxl and need.memory > 0,
            demand=demand if takes_gpus else None,
            gpu_memory=gpu_memory if takes_gpus else 0,
        )

    return noted(need, whole) if demand or gpu_memory or allow_cxl else need


def without_link_demand(need: Need) -> Need:
    """*need* without its demand on the links between GPUs."""
    parts = tuple(attrs.evolve(part, need=without_link_demand(part.need)) for part in need.parts)
    return attrs.evolve(need, parts=parts, demand=None)


def needs_in(need: Need) -> Iterator[Need]:
    """*need* and the needs of all parts in it."""
    yield need
    for part in need.parts:
        yield from needs_in(part.need)


def _most_gpus(need: Need) -> float:
    """The most GPUs that *need* can take; whole domains may have any number."""
    most: float = need.gpus
    for part in need.parts:
        number = math.inf if part.count.maximum is None else part.count.maximum
        each = math.inf if part.whole else _most_gpus(part.need)
        most += number * each if each else 0
    return most
