"""The running Flux instance, for commands that ask it: errors as one line, their exit status."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Iterator

from treepool.cli.screen import NO, USAGE, Stop
from treepool.errors import InvalidR

if TYPE_CHECKING:
    from treepool.flux.live import Live

#: Errors of a request that was answered. With all others, nobody is there to answer.
_ANSWERED = (errno.EINVAL, errno.EPERM, errno.ENOENT, errno.EEXIST)

#: A job's id as Flux prints it (RFC 19, F58).
_JOB_ID = re.compile(r"[ƒf][1-9A-HJ-NP-Za-km-z]{1,12}")


def meant_job(word: str) -> str:
    """What to say of *word*, which is not understood, if it looks like a job's id; else ""."""
    return (
        " (it is the id of a job: only a running instance has jobs)"
        if _JOB_ID.fullmatch(word)
        else ""
    )


def is_job(word: str) -> bool:
    """Whether *word* is the id of a job in any of Flux's forms; no shape is one."""
    with asking():
        from treepool.flux import client

        try:
            client.job_id(word)
        except ValueError:
            return False
        return True


@contextmanager
def asking(what: str = "") -> Iterator[None]:
    """Import treepool.flux and ask an instance; an error raises Stop, which begins with *what*."""
    try:
        yield
    except ImportError as e:
        told = f"this Python has no Flux ({e}): use flux treepool"
        raise Stop(f"{what}{told}, which treepool flux-env --install adds to Flux", USAGE) from None
    except InvalidR as e:
        raise Stop(f"{what}R is not valid: {e}") from None
    except ValueError as e:  # an answer that no Flux gives
        raise Stop(f"{what}{e}") from None
    except OSError as e:
        status = NO if e.errno in _ANSWERED else USAGE
        raise Stop(f"{what}{e.strerror or e}", status) from None


def is_there() -> tuple[bool, str]:
    """Whether there is a Flux instance here that can be asked; if not, why not."""
    try:
        with asking():
            from treepool.flux import client

            client.connected()
    except Stop as e:
        if os.environ.get("FLUX_URI"):
            return False, str(e)
        return False, "there is no Flux instance here"
    return True, ""


def look(waiting: bool = False) -> Live:
    """The current state of the environment's instance, also of *waiting* jobs; raises Stop."""
    with asking():
        from treepool.flux import live

        return live.Live.now(waiting)


def read(option: str, text: str, reader: Callable[[str], float], such: str) -> float:
    """The number that *reader* reads in the *text* of *option*, *such* as that; raises Stop."""
    try:
        return reader(text)
    except ValueError as e:
        raise Stop(f"argument {option}: {text[:60]!r}: {e} (such as {such})", USAGE) from None
