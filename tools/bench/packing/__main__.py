"""How well jobs are packed: ``python tools/bench/packing [options]``, or ``make packing``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parents[1]), str(HERE.parents[2])]

from bench.packing import fabrics  # noqa: E402
from bench.packing.command import main  # noqa: E402

sys.exit(fabrics.main(sys.argv[2:]) if sys.argv[1:2] == ["fabrics"] else main())
