"""One cluster of three servers that the faults share; each test leaves it whole."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends

FULL = os.environ.get("OPENTALOS_FAULTS") == "full"
# Sessions of Spark beside three servers and all backends, or a cluster for each damage: minutes
# for one round.
collect_ignore = [] if FULL else ["test_bill.py", "test_cluster_damages.py"]


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether faults are repeated as often as ``make faults`` does."""
    return FULL


@dataclass
class Shared:
    """The cluster, started again after a test could not leave it whole."""

    backends: RunningBackends
    folder: Path
    count: int = 0
    cluster: ClusterProcesses | None = None

    def get(self) -> ClusterProcesses:
        if self.cluster is None:
            self.count += 1
            self.cluster = ClusterProcesses(self.folder / f"cluster-{self.count}", self.backends)
            self.cluster.start()
            self.cluster.wait_settled()
        return self.cluster

    def heal(self) -> None:
        """Start again what a test killed."""
        for backend in self.backends.fleet.backends:
            for name in backend.names():
                backend.daemon(name).resume()
                backend.start_daemon(name)
            backend.wait_ready(print)
        if self.cluster is not None:
            self.cluster.start()
            self.cluster.wait_settled()

    def discard(self) -> None:
        if self.cluster is not None:
            self.cluster.close()
        self.cluster = None


@pytest.fixture(scope="session")
def shared(backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(backends, tmp_path_factory.mktemp("faults"))
    yield made
    made.discard()


@pytest.fixture
def cluster(shared: Shared) -> Iterator[ClusterProcesses]:
    """Three servers that serve."""
    try:
        yield shared.get()
        shared.heal()
    except BaseException:
        shared.discard()
        raise
