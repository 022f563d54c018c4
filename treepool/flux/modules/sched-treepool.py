"""The broker module ``sched-treepool``; Flux names a module after its file."""

import sys
from pathlib import Path

# The directory of this treepool and, after ``pip install --target``, of its dependencies. A site
# then only sets the path of this file. The entry goes last, so that it never hides another
# installation.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from treepool.flux.sched import mod_main

__all__ = ["mod_main"]
