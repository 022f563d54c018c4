"""Fluxion's key (RFC 40) for tests: made in the form in which Fluxion 0.54 writes it."""


def vertex(kind, *inside, **metadata):
    """A vertex of a type, what is in it, and what its metadata have besides."""
    return kind, metadata, inside


def cores(first, count, rank=0):
    """Some cores, with ids from *first*."""
    return [vertex("core", id=first + i, rank=rank) for i in range(count)]


def key(*roots):
    """The value of ``scheduling`` with these trees."""
    nodes, edges = [], []

    def add(one, source, path):
        kind, metadata, inside = one
        name = str(len(nodes))
        path = f"{path}/{metadata.get('name', kind + str(metadata.get('id', '')))}"
        paths = {"containment": path}
        nodes.append({"id": name, "metadata": {"type": kind, **metadata, "paths": paths}})
        if source is not None:
            edges.append({"source": source, "target": name})
        for inner in inside:
            add(inner, name, path)

    for root in roots:
        add(root, None, "")
    return {"graph": {"directed": False, "nodes": nodes, "edges": edges}}


def node(name, rank, *more):
    """A node of two sockets, each with four cores and a GPU, and *more*."""
    sockets = [
        vertex(
            "socket",
            *cores(4 * i, 4, rank),
            vertex("gpu", id=i, rank=rank),
            *(vertex("memory", id=2 * i + j, rank=rank, unit="GiB", size=16) for j in range(2)),
            id=i,
            rank=rank,
        )
        for i in range(2)
    ]
    return vertex("node", *sockets, *more, name=name, id=rank, rank=rank)


def two_racks():
    """Four such nodes, n0 to n3, in two racks, with disks and power as some sites have them."""
    racks = [
        vertex(
            "rack",
            *(node(f"n{rank}", rank) for rank in (2 * i, 2 * i + 1)),
            *(vertex("ssd", id=j, rank=-1, unit="GiB", size=512) for j in range(3)),
            vertex("pdu", id=i, rank=-1),
            id=i,
            rank=-1,
        )
        for i in range(2)
    ]
    return key(vertex("cluster", *racks, name="site0", id=0, rank=-1))
