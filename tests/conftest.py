"""What every test may have: real backends, a time limit, processor time in the report, and an
orderly end of a process with a Java machine."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.accelerator import WHY_NOT
from tests.native_encoder import WHY_NO_COLUMNS, WHY_NO_ROWS

from opentalos.backends.fleet import Fleet

HERE = Path(__file__).parent
STATUS = pytest.StashKey[int]()
# Of a test with processes, servers or many seeds. It only ends one that hangs: on a machine that is
# busy with other jobs, the start of a server alone has taken 20 s, the limit of a unit test.
TIMEOUT_S = 120
WITH_OTHER_LIMITS = ("unit", "spark")


@pytest.fixture(scope="session", autouse=True)
def processor_time(record_testsuite_property: Callable[[str, object], None]) -> Iterator[None]:
    """The report says it, of this process and of those that it started and that have ended."""
    yield
    record_testsuite_property("processor_s", f"{sum(os.times()[:4]):.1f}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A longer time limit for tests that are no unit tests and name none."""
    for item in items:
        part = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else "unit"
        if part not in WITH_OTHER_LIMITS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


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
