"""Starts the command line, for the script ``treepool`` and for ``python -m treepool``."""

from __future__ import annotations

import sys


def run() -> int:
    """Run the command line; returns its exit status, also after Ctrl-C while it is imported."""
    try:
        from treepool.cli.main import main
    except KeyboardInterrupt:
        sys.stderr.write("treepool: interrupted\n")
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
