"""The broker module ``sched-treepool``; Flux names a module after its file."""

import os
import sys
from pathlib import Path

# The directory of this treepool and of its libraries. No other module runs in this process.
here = Path(__file__)
home = (here.parent / os.readlink(here) if here.is_symlink() else here).parents[3]
sys.path[:0] = [str(home), str(home / "libraries")]  # the second one is there in an installation

from treepool.flux.sched import mod_main

__all__ = ["mod_main"]
