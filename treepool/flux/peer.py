"""flux-core's own TreePool, to play test vectors with (``treepool conformance --with flux-core``).

flux-core 0.87 is the first to have it.
"""

from __future__ import annotations

from typing import Any, Mapping

from flux.resource.Rv1Pool import Rv1Pool
from flux.resource.TreePool import TreePool


class FluxCore:
    """flux-core's pool, as an implementation that answers messages (doc/conformance.md)."""

    name = "flux-core"
    features: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._pool: Any = None

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to *message*."""
        op = message["op"]
        try:
            if op == "pool":
                self._pool = TreePool(message["R"])
            elif op == "alloc":
                return self._alloc(message["id"], message["jobspec"])
            elif op == "free":
                self._pool.free(message["id"])
            elif op == "register":  # it does not read the key from the R of a job
                R = Rv1Pool({**message["R"], "scheduling": None})
                self._pool.register_alloc(message["id"], R)
            elif op == "up":
                self._pool.mark_up(message["ranks"])
            elif op == "down":
                self._pool.mark_down(message["ranks"])
        except Exception as e:
            return {"error": "conflict", "message": f"{type(e).__name__}: {e}"}
        return {}

    def _alloc(self, jobid: int, jobspec: Mapping[str, Any]) -> dict[str, Any]:
        try:
            request = self._pool.parse_resource_request(jobspec)
        except Exception as e:
            return {"error": "invalid", "message": f"{type(e).__name__}: {e}"}
        try:
            self._pool.check_feasibility(request)
        except OSError as e:
            return {"error": "infeasible", "message": str(e)}
        try:
            return {"R": self._pool.alloc(jobid, request).to_dict()}
        except OSError as e:
            return {"error": "insufficient", "message": str(e)}
