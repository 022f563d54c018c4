"""The numbers that rule out starts, against looking at each moment."""

from random import Random

import pytest

from depth import examples
from made import nodes
from treepool.placement.plan.jobs import finish
from treepool.placement.plan.profile import PRESENT, Profile
from treepool.placement.pool import Pool


@pytest.mark.parametrize("seed", range(examples(200)))
def test_a_start_is_told_if_enough_is_free_as_long_as_the_job_runs(seed):
    chance = Random(seed)
    pool = Pool(nodes("0-5", "0-3", "0-1"))
    pool.mark_down("5")
    profile = Profile(pool)
    within = chance.choice([-1, 0b111, 0b100110])
    held = {}

    def hold(holder):
        planned = chance.random() < 0.5
        start = float(chance.randint(0, 20)) if planned else PRESENT
        end = float(chance.randint(21, 40) if planned else chance.randint(0, 30))
        parts = (
            (1 << chance.randrange(6) | 1 << chance.randrange(6), 1 << holder % 4, holder % 2),
        )
        profile.hold(holder, start, end, parts, planned)
        held[holder] = start, end, parts

    for holder in range(chance.randint(0, 9)):
        hold(holder)
    supply = profile.supply(within, False)
    steps = supply.settled(profile.meter)
    for holder in range(10, 16):  # while it is counted, some come and some go
        if held and chance.random() < 0.5:
            gone = chance.choice(sorted(held))
            profile.drop(gone)
            del held[gone]
        else:
            hold(holder)
        next(steps, None)
    finish(steps)

    def free(time):
        here = [bin(within & pool.up & 0b111111).count("1") * each for each in (4, 2)]
        for start, end, ((ranks, *ids),) in held.values():
            if start <= time < end:
                number = bin(ranks & within & pool.up).count("1")
                here = [n - number * bin(mask).count("1") for n, mask in zip(here, ids)]
        return here

    begin, length = float(chance.randint(0, 30)), float(chance.randint(1, 20))
    before = float(chance.randint(10, 45))
    until = before + chance.choice([0, 5, 100])
    need = chance.randint(0, 16), chance.randint(0, 6)
    moments = sorted({begin, *(time for span in held.values() for time in span[:2])})
    touching = {end for _, end, ((ranks, *_),) in held.values() if ranks & within & pool.up}
    expected = []
    for time in sorted({begin, *touching}):
        if begin <= time < before:
            last = min(time + length, until)
            seen = [time, *(moment for moment in moments if time < moment < last)]
            if all(has >= asked for at in seen for has, asked in zip(free(at), need)):
                expected.append(time)
    some = [time for time in moments if begin <= time < begin + length]
    assert supply.least(begin, begin + length) == tuple(map(min, zip(*map(free, some))))
    assert list(supply.starts(begin, length, *need, before, until)) == expected
