"""``flux treepool``: the command line as a Flux subcommand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from treepool.cli.main import main

sys.exit(main())
