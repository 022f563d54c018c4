"""The queues of Flux's configuration (RFC 33): virtual queues, and which policy holds in a queue.

A *virtual queue* names another queue as its ``parent``. Its jobs stand in one order with the
parent's, on the parent's nodes, and the parent's policy holds where it has none of its own.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import attrs


def inner(table: Any, *keys: str) -> Mapping[str, Any]:
    """The table in *table* at *keys*; an empty one if there is none."""
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else {}
    return table if isinstance(table, dict) else {}


@attrs.frozen
class Queues:
    """The queues in ``tables``, by name, and the ``policy`` of the instance. Flux checks both."""

    tables: Mapping[str, Any]
    policy: Mapping[str, Any]

    @classmethod
    def of(cls, configured: Callable[[str, Any], Any]) -> Queues:
        """Those of an instance; *configured* returns the value of a key, or a default."""
        return cls(configured("queues", {}), configured("policy", {}))

    def lineage(self, name: str) -> tuple[str, ...]:
        """Queue *name*, and before it its parent if it is virtual."""
        parent = inner(self.tables, name).get("parent")
        return (parent, name) if isinstance(parent, str) else (name,)

    def line(self, name: str) -> str:
        """The queue in whose order the jobs of queue *name* stand."""
        return self.lineage(name)[0]

    @property
    def parents(self) -> dict[str, str]:
        """The parent of each virtual queue."""
        lines = {name: self.line(name) for name in self.tables}
        return {name: line for name, line in lines.items() if line != name}

    def requires(self, name: str) -> list[str]:
        """The properties that Flux adds to the constraints of each job of queue *name*."""
        line = self.line(name)
        table = inner(self.tables, line)
        return [f"+{line}"] if "hosts" in table else list(table.get("requires", ()))

    def policy_in(self, name: str, *keys: str) -> dict[str, Any]:
        """The table at *keys* of the policy that holds in queue *name*.

        What the queue has itself counts more than what its parent has, and that more than what the
        instance has.
        """
        found = dict(inner(self.policy, *keys))
        for queue in self.lineage(name):
            found.update(inner(self.tables, queue, "policy", *keys))
        return found
