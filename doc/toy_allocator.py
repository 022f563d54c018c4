"""A toy allocator that plays treepool's conformance vectors: the first idle node for every job.

It reads a message on each line of stdin and answers with a line (doc/conformance.md):

    treepool conformance --with 'python3 doc/toy_allocator.py'
"""

import json
import sys


def ids(text):
    """The numbers in an idset such as 0-3,7 (RFC 22)."""
    spans = (item.strip("[]").split("-") for item in text.split(",") if item)
    return [n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)]


class Toy:
    """Whole nodes, one for each node or slot that a job asks for; it knows no domains."""

    def pool(self, message):
        """Start again, with the nodes of R."""
        entries = message["R"]["execution"]["R_lite"]
        self.children = {rank: e["children"] for e in entries for rank in ids(e["rank"])}
        self.jobs, self.down = {}, set()
        return {}

    def alloc(self, message):
        """Allocate the lowest idle nodes for a job."""
        wanted, vertices = 1, message["jobspec"]["resources"]
        while vertices and vertices[0]["type"] in ("node", "slot"):
            count = vertices[0]["count"]
            if not isinstance(count, int):
                return {"error": "unsupported", "message": "counts are numbers here"}
            wanted *= count
            vertices = vertices[0].get("with", [])
        if wanted > len(self.children):
            return {"error": "infeasible", "message": f"there are {len(self.children)} nodes"}
        taken = {rank for ranks in self.jobs.values() for rank in ranks} | self.down
        free = [rank for rank in sorted(self.children) if rank not in taken]
        if len(free) < wanted:
            return {"error": "insufficient", "message": f"{len(free)} nodes are idle"}
        ranks = self.jobs[message["id"]] = free[:wanted]
        R_lite = [{"rank": str(rank), "children": self.children[rank]} for rank in ranks]
        return {"R": {"version": 1, "execution": {"R_lite": R_lite, "nslots": wanted}}}

    def register(self, message):
        """Take note that a job has the nodes of an R."""
        entries = message["R"]["execution"]["R_lite"]
        self.jobs[message["id"]] = [rank for e in entries for rank in ids(e["rank"])]
        return {}

    def free(self, message):
        """Give back what a job has."""
        self.jobs.pop(message["id"], None)
        return {}

    def up(self, message):
        """Mark ranks up."""
        self.down -= set(ids(message["ranks"]))
        return {}

    def mark_down(self, message):
        """Mark ranks down."""
        self.down |= set(ids(message["ranks"]))
        return {}


toy = Toy()
acts = {
    "hello": lambda message: {"features": []},
    "pool": toy.pool,
    "alloc": toy.alloc,
    "register": toy.register,
    "free": toy.free,
    "up": toy.up,
    "down": toy.mark_down,
}
for line in sys.stdin:
    message = json.loads(line)
    act = acts.get(message["op"], lambda message: {"error": "unsupported"})
    print(json.dumps(act(message)), flush=True)
