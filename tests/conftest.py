"""What every test may have: real backends, shared servers, limits, and an orderly end of a process
with a Java machine.

A unit test has a limit of processor time, which no pause of the machine uses up. The limits of wall
time only end a test that hangs: waits end before, see ``tests/waiting.py``.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.accelerator import WHY_NOT
from tests.native_encoder import WHY_NO_COLUMNS, WHY_NO_ROWS
from tests.shared_servers import SharedServers
from tests.waiting import scale

from opentalos.backends.fleet import Fleet

HERE = Path(__file__).parent
STATUS = pytest.StashKey[int]()
SHARED = pytest.StashKey[SharedServers]()
UNIT_PROCESSOR_S = 20.0  # times the scale: two busy threads of one core slow each other
UNIT_HANGS_S = 300
HANGS_S = 900  # several waits, each with a limit of 120 s


def is_unit(item: pytest.Item) -> bool:
    return item.path.is_relative_to(HERE / "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The limit of wall time, also of a test that names its own for a quiet machine."""
    for item in items:
        own = item.get_closest_marker("timeout")
        quiet_s = own.args[0] if own else UNIT_HANGS_S if is_unit(item) else HANGS_S
        item.add_marker(pytest.mark.timeout(quiet_s * scale()), append=False)


def _used_too_much(_number: int, _frame: object) -> None:
    pytest.fail(f"more than {UNIT_PROCESSOR_S * scale():.0f} s of processor time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The limit of processor time of a unit test."""
    if not is_unit(item):
        return (yield)
    former = signal.signal(signal.SIGPROF, _used_too_much)
    signal.setitimer(signal.ITIMER_PROF, UNIT_PROCESSOR_S * scale())
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, former)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Whoever leaves a shared server in trouble fails, not who uses it next."""
    try:
        return (yield)
    finally:
        servers = item.config.stash.get(SHARED, None)
        if servers is not None and (unwell := servers.take_unwell()):
            pytest.fail("\n".join(unwell), pytrace=False)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[STATUS] = int(exitstatus)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The line passes run_lanes.py, so that nobody takes the cases for run."""
    for what, why in (("commits", WHY_NOT), ("rows", WHY_NO_ROWS), ("columns", WHY_NO_COLUMNS)):
        if why:
            terminalreporter.write_line(
                f"| native {what} were not tested: {why}; make accelerator (needs a C compiler)"
            )


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A process with a Java machine leaves without ending it: after dozens of clients, or with a
    thread inside Java, that crashes, and a run whose tests all passed would count as failed."""
    jpype = sys.modules.get("jpype")
    if jpype is not None and jpype.isJVMStarted():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash.get(STATUS, 1))


@pytest.fixture(scope="session")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServers]:
    """Servers that tests share: ``servers.get()`` is one without a configuration."""
    made = SharedServers(tmp_path_factory.mktemp("shared"))
    request.config.stash[SHARED] = made
    yield made
    unwell = made.take_unwell()  # of the last test
    made.stop()
    assert not unwell, unwell


@dataclass(frozen=True)
class RunningBackends:
    """Where real HDFS, ZooKeeper and HBase are; ``fleet`` stops, kills and pauses their daemons."""

    fleet: Fleet
    jars: Path  # of the clients in the process
    hdfs_url: str  # hdfs://HOST:PORT
    hdfs_conf_dir: Path
    zookeeper_hosts: str  # HOST:PORT
    hbase_url: str  # hbase://HOST:PORT, of its ZooKeeper


@pytest.fixture(scope="session")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBackends]:
    """The backends of the lane, else ones of this session; without Java the test fails."""
    given = os.environ.get("OPENTALOS_BACKENDS")
    if given:
        yield _running(json.loads(Path(given).read_text()))
        return
    fleet = Fleet(tmp_path_factory.mktemp("backends"))
    try:
        fleet.start(print, brief=True)
        yield _running(fleet.addresses())
    finally:
        fleet.kill()


def _running(addresses: dict[str, str]) -> RunningBackends:
    return RunningBackends(
        fleet=Fleet(Path(addresses["home"])),
        jars=Path(addresses["jars"]),
        hdfs_url=addresses["hdfs_url"],
        hdfs_conf_dir=Path(addresses["hdfs_conf_dir"]),
        zookeeper_hosts=addresses["zookeeper_hosts"],
        hbase_url=addresses["hbase_url"],
    )
