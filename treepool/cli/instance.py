"""The running Flux instance, for commands that show it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Mapping, Optional

from treepool.cli.screen import NO, USAGE, Stop
from treepool.errors import InvalidInput
from treepool.placement.nodes.state import Held
from treepool.view.jobstory import Closed, Facts
from treepool.view.picture import Picture

if TYPE_CHECKING:
    from treepool.flux.live import Live


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


def numbers() -> Any:
    """The scheduler's numbers; raises Stop."""
    live = _live()
    try:
        return live.numbers()
    except OSError as e:
        raise Stop(f"no sched-treepool can be asked: {e.strerror or e}", USAGE) from None


def job_named(name: str) -> int:
    """The number of the job with Flux's id *name*; raises Stop if *name* is not an id."""
    try:
        return int(_live().job_id(name))
    except ValueError:
        raise Stop(f"--job {name:.40}: is not a job id", USAGE) from None


def facts(jobid: int, name: str) -> tuple[Facts, list[Held]]:
    """What is known of job *jobid*, called *name*, and what it holds; raises Stop."""
    _live()
    from treepool.flux import jobclient

    try:
        return jobclient.facts(jobid, name)
    except OSError as e:
        raise Stop(f"job {name:.40}: {e.strerror or e}", NO) from None


def ask(question: Mapping[str, Any]) -> tuple[Any, Closed, tuple[Held, ...]]:
    """What a shape would get, whether its queue is closed, and the resources; raises Stop."""
    live = _live()
    from treepool.flux import jobclient

    try:
        answer, closed = jobclient.ask(question)
    except OSError as e:
        status = NO if e.errno == errno.EINVAL else USAGE
        raise Stop(e.strerror or str(e), status) from None
    return answer, closed, live.parts_of(answer.get("parts", ()))


def seconds(option: str, text: str) -> float:
    """The seconds in the Flux Standard Duration *text* of *option*; raises Stop."""
    _live()
    from treepool.flux import windowclient

    try:
        return windowclient.seconds_of(text)
    except ValueError as e:
        raise Stop(f"argument {option}: {text[:60]!r}: {e}", USAGE) from None


def jobspec_of(jobid: int) -> Optional[dict[str, Any]]:
    """The jobspec of job *jobid*; None if this user may not read it."""
    try:
        found: dict[str, Any] = _live().jobspec_of(jobid)
    except OSError:
        return None
    return found


def picture(live: Live) -> Picture:
    """The picture of *live* and its jobs."""
    holding = [running.job for running in live.jobs if running.job.parts]
    return Picture.of(live.pool, holding, drained=live.drained)


def _live() -> Any:
    try:
        from treepool.flux import live
    except ImportError as e:
        raise Stop(f"this Python has no Flux, use flux treepool: {e}", USAGE) from None
    return live
