"""Tests of commits run on Python's threads and on native ones."""

import pytest
from tests.accelerator import KINDS, NATIVE

# The end of a run says so (tests/conftest.py).
collect_ignore = [] if NATIVE is not None else ["test_native_threads.py"]


@pytest.fixture(params=KINDS)
def accelerator(request: pytest.FixtureRequest) -> str:
    """The setting: off, and required if native threads are built."""
    return str(request.param)
