"""The broker module ``sched-treepool``: Flux takes a module's name from its file's."""

import sys
from pathlib import Path

# Where this treepool is, and with ``pip install --target`` what it needs: a site then has nothing
# to set but where this file is. Last, so that it never stands in for another installation.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from treepool.flux.sched import mod_main

__all__ = ["mod_main"]
