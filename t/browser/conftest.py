"""Tests of the page in a real browser: where there is none, each says that it was skipped."""

from pathlib import Path

import pytest

from browser.driver import Browser, missing
from treepool.view.html import html
from treepool.view.rows import rows

HERE = Path(__file__).parent

WITHOUT = (
    f"{missing()} is not installed: the page was NOT tested in a browser"
    " (Debian's packages chromium and chromium-driver)"
)


def pytest_collection_modifyitems(items):
    """Skips this folder's tests where there is no browser."""
    if missing():
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=WITHOUT))


@pytest.fixture(scope="module")
def browser():
    """A browser, for all tests of a module."""
    new = Browser()
    yield new
    new.close()


@pytest.fixture
def show(browser, tmp_path):
    """``show(picture, unfold, plot, **window)`` opens the page of a picture; returns the browser.

    After the test, whatever it did: the browser has not complained, and asked for nothing.
    """
    path = tmp_path / "page.html"

    def show(picture, unfold=None, plot=None, **window):
        path.write_text(html(picture, rows(picture, unfold), plot), encoding="utf-8")
        browser.open(path, **window)
        return browser

    yield show
    assert browser.complaints() == []
    assert [url for url in browser.requests() if url != f"file://{path}"] == []
