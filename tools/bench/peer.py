"""flux-core's own TreePool, for comparison: the pool that Flux uses where there is no treepool.

flux-core 0.87 is the first to have it. Its Python module is made for one Python version, and lies
where that Python does not look by itself; ``flux python`` knows where.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any, Mapping

from treepool.errors import InfeasibleRequest, InsufficientResources

_ASK = "import json, sys; print(json.dumps([list(sys.version_info[:2]), sys.path]))"


def load() -> Any:
    """flux-core's TreePool class; raises ImportError, with one line on why, if there is none."""
    try:
        return _pool_class()
    except ImportError as e:
        _look_where_flux_does(e)
    sys.modules.pop("flux", None)  # the folder t/flux, taken for a package
    try:
        return _pool_class()
    except ImportError as e:
        raise ImportError(f"flux-core's TreePool (0.87 or later) cannot be imported: {e}") from None


class PeerPool:
    """flux-core's pool on *R*, with the methods the benchmark calls."""

    def __init__(self, R: Mapping[str, Any]) -> None:
        self._pool = load()(R)
        self._plain = import_module("flux.resource.Rv1Pool").Rv1Pool

    def parse_resource_request(self, spec: Mapping[str, Any]) -> Any:
        """The request of a jobspec."""
        return self._pool.parse_resource_request(spec)

    def check_feasibility(self, request: Any) -> None:
        """Raise InfeasibleRequest if an idle pool could not serve *request*."""
        try:
            self._pool.check_feasibility(request)
        except OSError as e:
            raise InfeasibleRequest(str(e)) from None

    def alloc(self, jobid: int, request: Any) -> Any:
        """Allocate for *jobid*; raises InsufficientResources if that cannot be done now."""
        try:
            return self._pool.alloc(jobid, request)
        except OSError as e:
            raise InsufficientResources(str(e)) from None

    def register(self, jobid: int, R: Mapping[str, Any]) -> None:
        """Take note that job *jobid* has *R*.

        Without the key, which flux-core's TreePool does not read from the R of a job.
        """
        self._pool.register_alloc(jobid, self._plain({**R, "scheduling": None}))

    def free(self, jobid: int) -> None:
        """Give back what job *jobid* holds."""
        self._pool.free(jobid)

    def copy(self) -> Any:
        """An independent copy of flux-core's pool."""
        return self._pool.copy()

    def mark_down(self, ids: str) -> None:
        """Make the ranks of idset *ids* unavailable."""
        self._pool.mark_down(ids)

    def mark_up(self, ids: str) -> None:
        """Make the ranks of idset *ids* available."""
        self._pool.mark_up(ids)


def _pool_class() -> Any:
    return import_module("flux.resource.TreePool").TreePool


def _look_where_flux_does(error: ImportError) -> None:
    """Append the path of Flux's own Python, which *error* says is needed, to this one's."""
    try:
        asked = subprocess.run(
            ["flux", "python", "-c", _ASK], capture_output=True, timeout=30, check=True
        )
        version, path = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        raise ImportError(f"flux-core's TreePool cannot be imported: {error}") from None
    here = list(sys.version_info[:2])
    if version != here:
        raise ImportError(
            "flux-core here is for Python {}.{}, this is {}.{}".format(*version, *here)
        )
    sys.path += [folder for folder in path if folder and folder not in sys.path]
