"""The way of a submission into the queue, and what waits until the nodes' topology is known."""

from __future__ import annotations

from errno import ENOSYS
from typing import Any, Callable, Mapping, Optional

from treepool.discovery.key import Nodes, encode_into
from treepool.flux.discover import Discovery
from treepool.flux.runner import Inbox
from treepool.flux.submissions import Submission, Submissions
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: A feasibility check: its message, the jobspec, and the ranks it waits for.
Check = tuple[Any, Mapping[str, Any], int]


class Intake:
    """Holds submissions and feasibility checks back while the topology of nodes is to come.

    *judge* is called for each submission when its meaning is clear, from *inbox* if it was held
    back, and *check* for each feasibility check. *changed* is called when nodes got their topology,
    with whether localities changed by that.
    """

    def __init__(
        self,
        handle: Any,
        log: Any,
        inbox: Inbox,
        judge: Callable[[Submission], None],
        check: Callable[[Any, Mapping[str, Any]], None],
        changed: Callable[[bool], None],
    ) -> None:
        self._handle = handle
        self._log = log
        self._inbox = inbox
        self._judge = judge
        self._check = check
        self._changed = changed
        self._pool: Optional[Pool] = None
        self._discovery: Optional[Discovery] = None
        #: The submissions that are held back.
        self.held = Submissions()
        self._checks: list[Check] = []

    @property
    def stats(self) -> Optional[dict[str, int]]:
        """How discovery stands; None if nothing is discovered."""
        return self._discovery.stats if self._discovery else None

    @property
    def awaited(self) -> Optional[int]:
        """The ranks whose topology a submission must wait for (bitmask); None if it need not wait.

        0 stands for any rank: no node that could be asked has been up yet.
        """
        discovery, pool = self._discovery, self._pool
        if discovery is None or pool is None:
            return None
        if discovery.unknown or (not discovery.known and pool.ranks):
            return discovery.unknown
        return None

    @property
    def complete(self) -> bool:
        """Whether the topology of all nodes that could be asked is known."""
        discovery, pool = self._discovery, self._pool
        return discovery is None or pool is None or not pool.ranks & ~discovery.known

    # -- submissions

    def take(self, submission: Submission) -> None:
        """Judge *submission*, now or when its meaning is clear."""
        awaited = self.awaited
        if awaited is None:
            self._judge(submission)
        else:
            self.held.hold(submission, awaited)

    def hold(self, submission: Submission) -> bool:
        """Judge *submission* again later if more nodes will be known then; returns whether so."""
        awaited = self.awaited
        if awaited is not None:
            self.held.hold(submission, awaited)
        return awaited is not None

    def check(self, msg: Any, jobspec: Mapping[str, Any]) -> None:
        """Answer a feasibility check, once the nodes that were asked have answered.

        As long as no node is up that could be asked, any job might run.
        """
        awaited = self.awaited
        if awaited is None:
            self._check(msg, jobspec)
        elif awaited:
            self._checks.append((msg, jobspec, awaited))
        else:
            self._handle.respond(msg, None)

    def end(self) -> None:
        """Answer the checks that are open, because the module is being unloaded."""
        checks, self._checks = self._checks, []
        for msg, _, _ in checks:
            self._handle.respond_error(msg, ENOSYS, "the scheduler is being unloaded")

    def release(self) -> None:
        """Judge the submissions, and answer the checks, whose topology has arrived."""
        awaited = self.awaited
        if awaited == 0 or not (self.held or self._checks):
            return
        unknown = self._discovery.unknown if self._discovery else 0
        self.held.release(unknown)
        self._inbox.put(self._judge_next)
        checks, self._checks = self._checks, []
        for msg, jobspec, ranks in checks:
            if ranks & unknown:
                self._checks.append((msg, jobspec, ranks))
            elif awaited is None:
                self._check(msg, jobspec)
            else:  # it may run on a node that came up since
                self._handle.respond(msg, None)

    def _judge_next(self) -> bool:
        """Judge a submission, the first in the order of the queue; returns whether there are more.

        Those that are ready are put in this order first, one at each call.
        """
        submission = self.held.next()
        if submission is not None:
            self._judge(submission)
        return self.held.ready

    # -- discovery

    def discover(self, pool: Pool, R: ResourceSet) -> None:
        """Ask all nodes that are up for their topology; a node stays down until it is known."""
        exact = int(self._handle.attr_get("instance-level")) > 0
        self._pool = pool
        discovery = self._discovery = Discovery(self._handle, R, self._on_topology, exact)
        discovery.up = pool.up
        pool.mark_down("all")
        discovery.want(discovery.up)

    def begin(self) -> None:
        """Start asking; call this when the reactor is about to run."""
        if self._discovery is not None:
            self._discovery.begin()

    def filtered(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A resource update without the nodes that must stay down until they are known."""
        discovery, pool = self._discovery, self._pool
        if discovery is None or pool is None:
            return data
        if "up" in data:
            ranks = pool.ranks
            up = ranks if data["up"] == "all" else idset.decode(str(data["up"])) & ranks
            discovery.up |= up
            discovery.want(up)
            data = {**data, "up": idset.encode(up & discovery.known)}
        if "down" in data:
            down = str(data["down"])
            discovery.up &= 0 if down == "all" else ~idset.decode(down)
        return data

    def _on_topology(self, found: list[Nodes], failed: dict[int, str]) -> None:
        """Give nodes the topology that their brokers sent, and use the nodes."""
        discovery, pool = self._discovery, self._pool
        assert discovery is not None and pool is not None
        localities = pool.localities
        if found:
            try:
                encoded = encode_into(pool.inventory.resource_set, found)
                pool.replace_key(encoded.R.scheduling or {})
            except Exception as e:  # the nodes must be of use all the same
                self._log.error(f"topology: {str(e) or type(e).__name__}: nodes stay flat")
        for reason in sorted(set(failed.values())):
            ranks = idset.encode(idset.from_ids(r for r, why in failed.items() if why == reason))
            self._log.warning(f"topology: rank {ranks} is flat: {reason}")
        pool.mark_up(idset.encode(discovery.up & discovery.known))
        if not discovery.unknown:
            known = ", ".join(pool.localities) or "none, nodes are flat"
            nodes = f"{discovery.nodes} node" + "s" * (discovery.nodes != 1)
            self._log.info(f"topology: {known} (hwloc of {nodes})")
        self._changed(pool.localities != localities)
        self.release()
