"""The picture of the page in the README: ``python tools/screenshot.py FILE``, or ``make doc``.

It is the page of ``treepool demo``, on which a job is picked. Says so, and leaves FILE as it
is, where there is no browser or no Flux.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "t"), str(REPOSITORY)]

from browser.driver import Browser, missing  # noqa: E402


def take(path):
    """Write the picture to *path*."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write = ("flux", "treepool", "show", "--instance", "--html", page)
        subprocess.run([sys.executable, "-m", "treepool", "demo", "--", *write], check=True)
        browser = Browser()
        try:
            browser.open(page, width=1120, height=1240)
            browser.js("document.getElementById('about').open = false")
            browser.js("document.getElementById('time').hidden = true")
            browser.click("#jobs button:nth-child(12)")
            browser.screenshot(path, whole=False)
        finally:
            browser.close()


if __name__ == "__main__":
    if "--help" in sys.argv[1:]:
        print(__doc__)
        sys.exit()
    without = missing() or (None if shutil.which("flux") else "flux")
    if without:
        print(f"screenshot: {without} is not installed: {sys.argv[1]} is left as it is")
    else:
        take(Path(sys.argv[1]))
