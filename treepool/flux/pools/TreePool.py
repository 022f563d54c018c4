"""The pool that Flux loads for the writer of a key and for ``pool-class=TreePool``.

It is alone in this directory, so that Flux's Python finds no other module of treepool there.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from treepool.flux.pool import pool_class

__all__ = ["pool_class"]
