"""What every test gets: a detector that fails a unit test whose code blocks the event loop."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster

CORE_PACKAGES = ("model", "wire", "ports", "log", "group", "catalog", "placement", "sds", "broker")


@pytest.fixture(autouse=True)
def loop_must_not_block(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a unit test in which the core sleeps, locks, or does file or socket I/O in a loop.

    Adapters, gateways and command lines are left out: their own tests look at how they wait.
    """
    folder = request.path.parent.name
    if "unit" not in request.path.parts or folder not in CORE_PACKAGES:
        yield
        return
    detector = BlockBuster("opentalos")
    detector.activate()
    try:
        yield
    finally:
        detector.deactivate()
