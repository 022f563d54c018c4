"""Run by Flux's Python: ``driven HISTORY FIRST LAST`` plays those of a kind with these seeds.

The last line of one that fails names its seed.
"""

import sys
import traceback

from dats import Dats
from histories import Mixed, Punctual
from same import Replayed, Same
from spared import Spared

KINDS = Mixed, Punctual, Same, Replayed, Dats, Spared
HISTORIES = {kind.__name__.lower(): kind for kind in KINDS}


def main():
    name, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, last):
        try:
            HISTORIES[name](seed).play()
        except Exception:
            traceback.print_exc()
            print(f"{name} {seed} fails", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
