"""Values of any kind, and documents in which one value is wrong."""

from __future__ import annotations

import copy
from typing import Any, Sequence

from hypothesis import strategies as st


def anything(words: Sequence[str], keys: Sequence[str], leaves: int) -> st.SearchStrategy[Any]:
    """Any JSON value of up to so many *leaves*; *words* and *keys* are likely texts and keys."""
    names = st.sampled_from(keys) | st.text(max_size=3)
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-3, 20)
        | st.integers()
        | st.floats()
        | st.sampled_from(words)
        | st.text(max_size=5),
        lambda below: st.lists(below, max_size=4) | st.dictionaries(names, below, max_size=4),
        max_leaves=leaves,
    )


def replaced(document: Any, path: Sequence[int], value: Any) -> Any:
    """A copy of *document* with the value at *path* replaced; steps of *path* are taken modulo."""
    document = copy.deepcopy(document)
    parent, last = None, None
    here = document
    for step in path:
        if isinstance(here, dict) and here:
            parent, last = here, sorted(here)[step % len(here)]
        elif isinstance(here, list) and here:
            parent, last = here, step % len(here)
        else:
            break
        here = parent[last]
    if parent is None:
        return value
    parent[last] = value
    return document
