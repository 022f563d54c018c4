"""RFC 14 resource vertices in few words."""

from __future__ import annotations

from typing import Any


def vertex(kind: str, n: Any = 1, *below: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A resource vertex with its keys in RFC 46's order."""
    return {"type": kind, "count": n, **keys, **({"with": list(below)} if below else {})}


def slot(n: Any, *below: dict[str, Any], label: str = "default") -> dict[str, Any]:
    return vertex("slot", n, *below, label=label)


NODE = vertex("node")
CORE = vertex("core")
