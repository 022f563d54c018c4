"""The broker module ``sched-treepool``; Flux names a module after its file."""

import sys
from pathlib import Path

# The directory of this treepool and of its libraries. No other module runs in this process.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from treepool.flux.sched import mod_main

__all__ = ["mod_main"]
