"""How hard the tests look, see depth.py."""

from hypothesis import settings

import depth  # noqa: F401 (registers the profiles)

settings.load_profile("check")


def pytest_addoption(parser):
    """Adds --steps."""
    parser.addoption(
        "--steps",
        type=int,
        help="steps of the state machine (100,000 with --hypothesis-profile=ci, else 2,000)",
    )
