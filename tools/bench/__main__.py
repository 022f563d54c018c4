"""How long allocations take: ``python tools/bench [options]``, or ``make bench BENCH=...``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]

from bench.command import main  # noqa: E402

sys.exit(main())
