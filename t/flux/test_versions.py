"""All of Flux here is the one on the PATH; so what t/flux tells, it tells of that version."""

import json

from features import VERSION

#: Where the modules of Flux's Python lie, and the version of the library under them.
WHO = """
import json, flux
from _flux._core import ffi, lib
print(json.dumps([flux.__file__, ffi.string(lib.flux_core_version_string()).decode()]))
"""


def test_broker_library_and_bindings_are_of_the_flux_on_the_path(small):
    where = small.flux("config", "builtin", "python_path").split(":")[0]
    bindings, library = json.loads(small.flux("python", "-c", WHO))
    assert bindings.startswith(f"{where}/flux/")
    assert library == small.flux("getattr", "version")
    assert library.startswith(VERSION)  # a build from git says more
