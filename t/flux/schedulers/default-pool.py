"""A scheduler of flux-core's source tree with treepool as its default pool.

For tests: a copy under the scheduler's own name, in front of FLUX_MODULE_PATH, is loaded instead.
"""

import importlib.util
import os
from pathlib import Path

from flux.resource.ResourcePool import _pool_class_from_uri
from flux.scheduler import Scheduler

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux.pool import TreepoolPool

# flux-core's tests of its own TreePool ask for it by this name.
assert _pool_class_from_uri("TreePool") is TreepoolPool
Scheduler.pool_class = TreepoolPool

with open(os.environ["TREEPOOL_TEST_LOADED"], "a") as loaded:
    print(Path(__file__).stem, file=loaded)

_path = Path(os.environ["FLUX_CORE_SRC"], "src", "modules", Path(__file__).name)
_spec = importlib.util.spec_from_file_location(f"of_flux_core_{_path.stem}", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
mod_main = _module.mod_main
