"""The picture of the page in the README: ``python t/browser/screenshot.py FILE``, or ``make doc``.

Says so, and leaves FILE as it is, where there is no browser.
"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from browser.driver import Browser, missing  # noqa: E402
from treepool.cli.main import main  # noqa: E402

#: Jobs on the 32 nodes of doc/fabric.json; the one that is picked out.
JOBS = (
    "node=6/slot=4/[core=24;gpu=1]", "slot=2/[core=24;gpu=1]", "slot=4/[core=8;gpu=1]",
    "node=4/slot=4/[core=20;gpu=1]", "slot=3/[core=12;gpu=1]", "slot=6/core=16",
    "slot=5/[core=24;gpu=1]", "slot=2/socket{x}", "node=3/slot=2/[core=24;gpu=1]", "slot/core=60",
)  # fmt: skip
PICKED = "7"


def take(path):
    """Write the picture to *path*."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        R = HERE.parents[1] / "doc" / "fabric.json"
        status = main(["show", "-R", str(R), "--html", str(page), "--jobs", *JOBS])
        assert status == 0
        browser = Browser()
        try:
            browser.open(page, width=1120, height=1080)
            browser.js("document.getElementById('about').open = false")
            browser.click("#job")
            browser.press(*PICKED)
            browser.screenshot(path, whole=False)
        finally:
            browser.close()


if __name__ == "__main__":
    if missing():
        print(f"screenshot: {missing()} is not installed: {sys.argv[1]} is left as it is")
    else:
        take(Path(sys.argv[1]))
