"""``python -m treepool``: the command line, where the console script is not installed."""

from __future__ import annotations

import sys

from treepool.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
