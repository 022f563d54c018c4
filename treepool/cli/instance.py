"""The running Flux instance, for commands that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treepool.cli.screen import NO, USAGE, Stop
from treepool.errors import InvalidInput
from treepool.view.model import Job
from treepool.view.status import Running

if TYPE_CHECKING:
    from treepool.flux.live import Live, LiveJob


def look() -> Live:
    """The current state of the environment's instance; raises Stop if it cannot be read."""
    live = _live()
    try:
        found: Live = live.Live.now()
    except OSError as e:
        raise Stop(f"no Flux instance can be read: {e.strerror or e}", USAGE) from None
    except InvalidInput as e:
        raise Stop(f"the instance's R: {e}") from None
    return found


def job_named(name: str) -> int:
    """The number of the job with Flux's id *name*; raises Stop if *name* is not an id."""
    try:
        return int(_live().job_id(name))
    except ValueError:
        raise Stop(f"--job {name:.40}: is not a job id", USAGE) from None


def jobspec_of(jobid: int, name: str) -> dict[str, Any]:
    """The jobspec of job *jobid*, called *name*; raises Stop if it is not available."""
    try:
        found: dict[str, Any] = _live().jobspec_of(jobid)
    except OSError as e:
        raise Stop(f"job {name:.40}: {e.strerror or e}", NO) from None
    return found


def running(live: Live) -> list[Running]:
    """The jobs of *live*, in the form that views use."""
    return [_running(job) for job in live.jobs]


def _running(job: LiveJob) -> Running:
    if job.held is None:
        held = Job(job.name, job.title, ())
    else:
        held = Job.of(job.name, job.title, job.held)
    note = str(job.annotations.get("reason_pending", ""))
    return Running(held, job.user, job.title, job.state, job.started or job.submitted, note)


def _live() -> Any:
    try:
        from treepool.flux import live
    except ImportError as e:
        raise Stop(f"this Python has no Flux, use flux treepool: {e}", USAGE) from None
    return live
