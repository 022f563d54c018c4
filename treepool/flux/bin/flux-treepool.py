"""``flux treepool``: the command line as a Flux subcommand."""

import os
import sys
from pathlib import Path

here = Path(__file__)
home = (here.parent / os.readlink(here) if here.is_symlink() else here).parents[3]
sys.path[:0] = [str(home), str(home / "libraries")]  # the second one is there in an installation

from treepool.__main__ import run

sys.exit(run())
