"""Parts of the module, and of the soak, that need no Flux."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "flux"))
