"""What large inputs cost: ``python costs.py [TARGET...]`` prints a line for each target.

How many inputs of large.py it took, the worst CPU time and memory of any, and which input that was.
Times are of the machine it runs on, so let it be idle.
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "t"), str(REPOSITORY)]

from fuzz.large import LARGE, make  # noqa: E402
from fuzz.measure import cost  # noqa: E402
from fuzz.targets import TARGETS, attempt  # noqa: E402

if "--help" in sys.argv:
    print(__doc__)
    sys.exit()
for target in TARGETS.values():  # what good input imports and remembers is not to be measured
    for seed in target.seeds:
        attempt(target.name, seed)
for name in sys.argv[1:] or LARGE:
    costs = {case: cost(name, make(name, case)) for case in LARGE[name]}
    slow = max(costs, key=lambda case: costs[case].seconds)
    large = max(costs, key=lambda case: costs[case].mib)
    most = f"{costs[slow].seconds:.2f} s ({slow}), {costs[large].mib:.0f} MiB ({large})"
    print(f"{name}: {len(costs)} inputs, at most {most}")
    for case in (case for case, found in costs.items() if not found.good):
        print(f"{name}, {case}: {costs[case]}", file=sys.stderr)
