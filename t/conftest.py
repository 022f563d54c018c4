"""How hard the tests look, see depth.py."""

from hypothesis import settings

import depth  # noqa: F401 (registers the profiles)

settings.load_profile("check")
