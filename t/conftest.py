"""How hard the tests look, see depth.py."""

import gc

from hypothesis import settings

import depth  # noqa: F401 (registers the profiles)

settings.load_profile("check")


def pytest_collection_finish():
    """Leaves the tests themselves out of garbage collections: a tenth of the time of a run."""
    gc.collect()
    gc.freeze()
