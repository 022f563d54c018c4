"""Histories of an instance with spare nodes."""

from histories import Mixed

from treepool.placement.plan.jobs import FAR
from treepool.rfc import idset


class Spared(Mixed):
    """Everything, in any order, and some nodes are kept for those that fail."""

    def __init__(self, seed):
        super().__init__(seed)
        self.conf["sched-treepool"]["spares"] = self.chance.randint(1, 3)

    def configure(self):
        """A new configuration, often with another number of spare nodes."""
        if self.chance.random() < 0.5:
            table = {**self.conf["sched-treepool"], "spares": self.chance.randint(0, 2)}
            self.conf = {**self.conf, "sched-treepool": table}
        return super().configure()

    def compare(self):
        super().compare()
        manager, queue = self.manager, self.queue
        busy = {rank for job in manager.jobs.values() for rank in job.held}
        kept = set(idset.iterate(idset.union(window.ranks for window in queue.spares)))
        spares = self.module.scheduler.options.spares  # a configuration may be spoilt
        wanted = spares - len(manager.ranks) + len(manager.up)
        assert kept <= manager.up - busy, "no job leaves a node for it"
        assert len(kept) == min(max(0, wanted), len(manager.up - busy))
        for made in queue.reservations.values():
            ranks = {rank for part in made.parts for rank in idset.iterate(part[0])}
            assert made.start > self.clock.now + FAR or not kept & ranks
