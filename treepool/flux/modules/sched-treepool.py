"""The broker module ``sched-treepool``; Flux names a module after its file."""

import os
import sys
from pathlib import Path

# The directory of this treepool and of its libraries. No other module runs in this process. Flux
# follows links before it loads a module, so an installation has a copy of this file.
home = next(
    above for above in Path(__file__).resolve().parents if os.path.lexists(above / "treepool")
)
sys.path[:0] = [str(home), str(home / "libraries")]  # the second one is there in an installation

from treepool.flux.sched import mod_main

__all__ = ["mod_main"]
