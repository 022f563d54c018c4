"""``flux treepool``: the command line as a Flux subcommand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from treepool.__main__ import run

sys.exit(run())
