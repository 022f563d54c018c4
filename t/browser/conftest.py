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
    """``show(picture, ...)`` opens the page of a picture, as html() takes it; returns the browser.

    After the test, whatever it did: the browser has not complained, and asked for nothing.
    """
    path = tmp_path / "page.html"

    def show(picture, unfold=None, plot=None, image="", about=(), **window):
        page = html(picture, rows(picture, unfold), plot, image, about)
        path.write_text(page, encoding="utf-8")
        browser.open(path, **window)
        return browser

    yield show
    assert browser.complaints() == []
    asked = [url for url in browser.requests() if not url.startswith("data:")]
    assert [url for url in asked if url != f"file://{path}"] == []
