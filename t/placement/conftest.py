"""When these tests take place."""

import pytest


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """It is one second after the epoch, and stays so: what expires in these tests is yet to."""
    monkeypatch.setattr("time.time", lambda: 1.0)
