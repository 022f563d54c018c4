"""How hard the tests look: one hypothesis profile decides for all of them.

``pytest --hypothesis-profile=ci`` is what ``make ci`` runs; ``check``, the default, does a part of
it, and ``land``, which ``.ci/run`` runs, a larger one. A test names what it does in ``ci``, and is
given its share by ``examples``. What has no share worth running is marked ``depth``: ``make check``
leaves it out.
"""

from __future__ import annotations

from typing import Any, Iterable

from hypothesis import HealthCheck, settings

#: Examples of a property test that asks for no number of its own, by profile.
CI, LAND, CHECK = 100, 20, 4

#: Timings never decide a test.
_TIMELESS = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

settings.register_profile("check", max_examples=CHECK, **_TIMELESS)
settings.register_profile("land", max_examples=LAND, **_TIMELESS)
settings.register_profile("ci", max_examples=CI, **_TIMELESS)


def deep() -> bool:
    """Whether the loaded profile looks as hard as ``ci``."""
    return settings.default.max_examples >= CI


def examples(number: int) -> int:
    """The share of *number* that the loaded profile does: all of it in ``ci``, at least one."""
    return max(1, number * settings.default.max_examples // CI)


def some(cases: Iterable[Any], one_in: int = 8) -> list[Any]:
    """Cases of a table in which each is like many others: all of them in ``ci``, else a share."""
    return list(cases)[:: 1 if deep() else one_in]
