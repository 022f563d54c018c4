"""What the benchmark found, as it goes from the measuring process to whoever shows it.

Times are microseconds, memory is bytes. The same records make the JSON lines, the table, the
picture and the verdict on the targets.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import attrs


@attrs.frozen
class Timing:
    """The distribution of some samples; with fewer than a hundred, ``p99`` is the largest."""

    median: float
    p99: float
    samples: int

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Timing:
        """The timing of samples in *nanoseconds*, of which there is one at least."""
        ordered = sorted(nanoseconds)
        size = len(ordered)
        p99 = ordered[-(-99 * size // 100) - 1]
        return cls(ordered[(size - 1) // 2] / 1000, p99 / 1000, size)


@attrs.frozen
class FormResult:
    """One request form on one cluster.

    ``timings`` has alloc, to_dict, free, job (the three together), repeated (job again, with
    nothing between one and the next) and feasibility; when ``refused``, only those of an alloc
    that fails. ``rate`` is jobs, or refusals, per second. ``peer`` is what flux-core's pool took
    for the same, None if it was not asked or answered otherwise.
    """

    form: str
    shape: str
    refused: bool
    timings: Mapping[str, Timing]
    rate: float
    peer: Optional[Mapping[str, Timing]] = None

    @property
    def job(self) -> float:
        """The median of what one job costs: alloc, to_dict and free, or the alloc that fails."""
        return self.timings["job"].median

    @property
    def peer_job(self) -> Optional[float]:
        """The same for the peer."""
        return None if self.peer is None else self.peer["job"].median

    @property
    def ratio(self) -> Optional[float]:
        """How many times longer the peer takes for a job."""
        return None if self.peer_job is None else self.peer_job / self.job


@attrs.frozen
class SizeResult:
    """All that was measured on a cluster of ``nodes`` nodes.

    ``jobs``, ``states``, ``cores_in_use`` and ``gpus_in_use`` (fractions of all) describe it once
    it was aged. ``pool`` has construct, copy, mark_down and mark_up, and ``peer`` the same of
    flux-core's pool. ``peak_memory`` is the process's, without the peer's pool. ``cpu_share`` is
    the fraction of a core that it had: much below 1, others kept it from running.
    """

    nodes: int
    seed: int
    steps: int
    jobs: int
    states: int
    cores_in_use: float
    gpus_in_use: float
    peak_memory: int
    cpu_share: float
    pool: Mapping[str, Timing]
    forms: Sequence[FormResult]
    peer: Optional[Mapping[str, Timing]] = None

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> SizeResult:
        """The result whose ``attrs.asdict`` is *value*."""
        forms = [
            FormResult(**{**form, "timings": _timings(form["timings"]), "peer": _peer(form)})
            for form in value["forms"]
        ]
        return cls(
            **{**value, "pool": _timings(value["pool"]), "forms": forms, "peer": _peer(value)}
        )

    def form(self, name: str) -> FormResult:
        """The result of form *name*."""
        return next(form for form in self.forms if form.form == name)

    def lines(self) -> list[dict[str, Any]]:
        """JSON objects, one for the pool as a whole and one for each form, complete in itself."""
        whole = attrs.asdict(self)
        pool, peer, forms = whole.pop("pool"), whole.pop("peer"), whole.pop("forms")
        lines = [{**whole, "form": "pool", **pool, **({"peer": peer} if peer else {})}]
        for form, result in zip(forms, self.forms):
            timings, peer = form.pop("timings"), form.pop("peer")
            more = {"peer": peer, "ratio": result.ratio} if peer else {}
            lines.append({**whole, **form, **timings, **more})
        return lines


def _timings(value: Mapping[str, Any]) -> dict[str, Timing]:
    return {name: Timing(**timing) for name, timing in value.items()}


def _peer(value: Mapping[str, Any]) -> Optional[dict[str, Timing]]:
    return None if value["peer"] is None else _timings(value["peer"])
