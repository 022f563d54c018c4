"""From hosts, users and groups that a window names to ranks and ids; messages on unknown names."""

from __future__ import annotations

import grp
import pwd
from typing import Callable, Collection, Optional, Union

from treepool.placement.plan.windows import Window
from treepool.rfc import windows
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean
from treepool.rfc.rset import ResourceSet
from treepool.rfc.windows import WindowEntry

#: Most names listed in a message.
_MAX_LISTED = 8


def window_of(
    entry: WindowEntry, R: ResourceSet, queues: Collection[str], problem: Callable[[str], None]
) -> Window:
    """The window of *entry* on the ranks of *R*, in an instance with *queues*.

    *problem* receives a line about unknown hosts, users and queues.
    """
    ranks, unknown = windows.ranks_of(entry.hosts, R)
    if unknown:
        problem(f"window {entry.name}: this instance has no host {listed(unknown)}")
    missing = [queue for queue in entry.queues if queue not in queues]
    if missing:
        hint = did_you_mean(missing[0], queues)
        problem(f"window {entry.name}: this instance has no queue {listed(missing)}{hint}")
    ids = {user: user_id(user) for user in entry.users}
    nobody = [str(user) for user, uid in ids.items() if uid is None]
    if nobody:
        problem(f"window {entry.name}: there is no user {listed(nobody)}")
    users = {uid for uid in ids.values() if uid is not None}
    for group in entry.groups:
        found = members(group)
        if not found:
            problem(f"window {entry.name}: there is no group {listed([group])}, or it names nobody")
        users.update(found)
    queued, banks = frozenset(entry.queues), frozenset(entry.banks)
    return Window(entry.name, ranks, entry.start, entry.end, frozenset(users), queued, banks)


def user_id(user: Union[str, int]) -> Optional[int]:
    """The id of a user given by name or id; None if nobody has the name."""
    try:
        return user if isinstance(user, int) else pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return None


def members(group: str) -> list[int]:
    """The ids of the users whom a group names now; none if it is unknown.

    Those whose own group it is are not among them: to list all users may take minutes at a site.
    """
    try:
        named = grp.getgrnam(group)
    except (KeyError, ValueError):
        return []
    ids = [user_id(user) for user in named.gr_mem]
    return [uid for uid in ids if uid is not None]


def listed(names: list[str]) -> str:
    """The first of *names* for a message, and how many more there are."""
    more = len(names) - _MAX_LISTED
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(map(shown, names[:_MAX_LISTED])) + rest
