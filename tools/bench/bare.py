"""EASY backfill with numbers of nodes only: what a plan on real nodes is compared with."""

import heapq


def waits(jobs, nodes):
    """The seconds that each of *jobs* waits, in the order in which they start.

    A job is its submission, the seconds that it runs and may run, and its nodes, of *nodes* that
    are all alike. They are in the order of submission.
    """
    free, running, queue, found, came = nodes, [], [], [], 0
    while came < len(jobs) or running or queue:
        now = min([end for end, _, _ in running[:1]] + [job[0] for job in jobs[came : came + 1]])
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[2]
        while came < len(jobs) and jobs[came][0] <= now:
            queue.append(jobs[came])
            came += 1
        shadow = extra = None
        left = []
        for submitted, runs, limit, size in queue:
            if shadow is not None:
                ends_in_time = now + limit <= shadow
                starts = size <= free and (ends_in_time or size <= extra)
                extra -= size if starts and not ends_in_time else 0
            else:
                starts = size <= free
            if starts:
                free -= size
                heapq.heappush(running, (now + runs, now + limit, size))
                found.append(now - submitted)
                continue
            left.append((submitted, runs, limit, size))
            if shadow is None:
                shadow, extra = _shadow(running, now, free, size)
        queue = left
    return found


def _shadow(running, now, free, size):
    """When so many nodes are free, as far as is known *now*, and how many more there are then."""
    for end, its in sorted((limit, its) for _, limit, its in running):
        free += its
        if free >= size:
            return max(end, now), free - size
    raise AssertionError("more nodes than there are")
