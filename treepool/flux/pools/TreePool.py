"""The pool that Flux loads for the writer of a key and for ``pool-class=TreePool``.

It is alone in this directory, so that Flux's Python finds no other module of treepool there.
"""

import os
import sys
from pathlib import Path

here = Path(__file__)
home = (here.parent / os.readlink(here) if here.is_symlink() else here).parents[3]
sys.path[:0] = [str(home), str(home / "libraries")]  # the second one is there in an installation

from treepool.flux.pool import pool_class

__all__ = ["pool_class"]
