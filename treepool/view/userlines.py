"""What each user has, in lines, from the totals that the scheduler tells."""

from __future__ import annotations

from typing import Callable, Mapping

import attrs

from treepool.view import words


@attrs.frozen
class UserLine:
    """What a user has: jobs that run and wait, and nodes, cores and GPUs that those that run have.

    A node on which several jobs of his have something counts once.
    """

    user: str
    running: int
    waiting: int
    nodes: int
    cores: int
    gpus: int


def user_lines(
    users: Mapping[str, Mapping[str, int]], name_of: Callable[[int], str]
) -> list[UserLine]:
    """A line for each of *users*, which are by id; who has the most cores is first."""
    names = "running", "waiting", "nodes", "cores", "gpus"
    found = [
        UserLine(words.plain(name_of(int(user))), *(has[name] for name in names))
        for user, has in users.items()
    ]
    return sorted(found, key=lambda line: (-line.cores, -line.waiting, line.user))
