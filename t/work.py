"""How much work a call is, counted in lines of treepool that run: the same on a busy machine.

What runs in C between two lines is not seen. A test that relies on it says what it counts instead.
"""

import math
import sys
from pathlib import Path

import treepool

#: Where it was imported from: Flux may have a copy of its own.
PACKAGE = str(Path(treepool.__file__).parent)


class TooMuchWork(BaseException):
    """More lines ran than may run."""


class Lines:
    """Counts the lines of treepool that run in the ``with`` block.

    A loop counts its lines each time, a generator those between two of its values. The line after
    *most* raises TooMuchWork, so that work without end is noticed too.
    """

    def __init__(self, most=math.inf):
        self.count = 0
        self.most = most

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _called(self, frame, event, argument):
        if frame.f_code.co_filename.startswith(PACKAGE):
            return self._line
        return None

    def _line(self, frame, event, argument):
        if event == "line":
            self.count += 1
            if self.count > self.most:
                raise TooMuchWork(f"more than {self.most:,} lines")
        return self._line
