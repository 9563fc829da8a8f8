"""Unit tests run in virtual time, those of the core under a detector of blocking calls."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from blockbuster import BlockBuster
from tests.unit.source_tree import tree_of

from opentalos.testing.simulation.loop import SimulationLoop

UNIT = Path(__file__).parent
CORE = {"model", "wire", "ports", "log", "group", "catalog", "placement", "sds", "broker"}


@pytest.fixture(scope="session", autouse=True)
def trees_are_dropped() -> Iterator[None]:
    """Else the collections of garbage at the end of a run visit millions of nodes, for a minute."""
    yield
    tree_of.cache_clear()


class VirtualLoop(SimulationLoop):
    """A loop whose sleeps cost no time; uncaught errors are logged, as asyncio does."""

    def __init__(self) -> None:
        super().__init__()
        self.set_exception_handler(None)


def in_core(path: Path) -> bool:
    return path.is_relative_to(UNIT) and path.relative_to(UNIT).parts[0] in CORE


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Asynchronous tests run in virtual time, unless they await real threads or sockets."""
    if "adapters" not in item.path.parts and item.get_closest_marker("real_time") is None:
        return {"virtual": VirtualLoop}
    return {"real": asyncio.SelectorEventLoop}


@pytest.fixture(autouse=True)
def loop_must_not_block(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which the core sleeps, locks, or does file or socket I/O in a loop.

    Adapters, gateways and command lines are left out: their own tests check how they wait.
    """
    if not in_core(request.path):
        yield
        return
    detector = BlockBuster("opentalos")
    detector.activate()
    try:
        yield
    finally:
        detector.deactivate()
