"""``flux treepool``: the command line as a Flux subcommand."""

import runpy
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

runpy.run_module("treepool", run_name="__main__")
