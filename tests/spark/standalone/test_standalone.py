"""A standalone cluster of Spark with HDFS: rows are exact over kills, and secrets stay secret."""

import json
import re
import shutil
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.conftest import RunningBackends
from tests.server_process import ROOT_KEY
from tests.spark.archived import PARTITIONS, PUT, ArchivedTopic
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import read_all
from tests.spark.standalone import sink_job
from tests.spark.standalone.standalone_cluster import (
    EXECUTOR,
    WORKER_HOSTS,
    Family,
    StandaloneCluster,
    killed,
)
from tests.waiting import eventually, limit_s

from opentalos.sdk import TalosAdmin

pytestmark = pytest.mark.backend
BATCH = 1_000
ARCHIVED = "archived-on-a-cluster"
WRITTEN = "written-on-a-cluster"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    started = StandaloneCluster(tmp_path_factory.mktemp("standalone"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def key_file(server: TalosServer, cluster: StandaloneCluster) -> Path:
    path = cluster.folder / "talos.key"
    path.write_text(server.key)
    return path


class Archiving(ArchivedTopic):
    """A topic, and its archive on HDFS with the checkpoint beside it."""

    def __init__(self, server: TalosServer, hdfs: str, key_file: Path) -> None:
        super().__init__(server, ARCHIVED, f"delta+{hdfs}/archive")
        self.command = [
            "run", "archive", "-o", f"archive.topics={ARCHIVED}", "-o", f"archive.path={self.url}",
            "-o", f"archive.checkpoint={hdfs}/checkpoint", "--url", server.url,
            "--key-file", str(key_file), "--trigger", "0", "--messages-per-trigger", str(BATCH),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def archived(
    server: TalosServer, cluster: StandaloneCluster, backends: RunningBackends, key_file: Path
) -> Archiving:
    """An executor is killed, then the driver; a driver of another machine takes the rest."""
    archiving = Archiving(server, f"{backends.hdfs_url}/{cluster.folder.name}", key_file)
    archiving.put_more()
    program = cluster.submitted_program()
    with cluster.driver("driver-1", program, *archiving.command, submit=True) as driver:
        archiving.wait_for(1, driver)
        (cluster.folder / "pages").write_text(pages_of(driver))
        lost = cluster.executors()[0]
        killed(lost)
        archiving.put_more()
        archiving.wait_for(archiving.whole, driver)
        assert lost not in cluster.executors()
        archiving.put_more()
        archiving.wait_for((archiving.put - PUT) * PARTITIONS + 1, driver)
        driver.kill()
    again = [*archiving.command, "--available-now"]
    with cluster.driver("driver-2", *again, submit=False) as driver:
        assert driver.wait() == 0, driver.said()
    return archiving


def pages_of(driver: Family) -> str:
    """What Spark's UI says of settings and plans."""
    (page,) = re.findall(r"Spark UI: (\S+)", driver.said())
    found = ""
    (app,) = json.loads(_get(f"{page}/api/v1/applications"))
    for name in ("environment", "sql?planDescription=true"):
        found += _get(f"{page}/api/v1/applications/{app['id']}/{name}")
    return found


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=limit_s()) as reply:
        return str(reply.read().decode())


def test_each_message_is_archived_once_over_kills_of_executors_and_drivers(
    archived: Archiving,
) -> None:
    assert archived.put == 3 * PUT
    archived.check()


def test_the_secret_is_on_no_page_of_spark(archived: Archiving, cluster: StandaloneCluster) -> None:
    pages = (cluster.folder / "pages").read_text()
    assert "talos.key" in pages  # the command line is shown
    assert ROOT_KEY.secret not in pages


def test_the_secret_is_in_no_event_log(archived: Archiving, cluster: StandaloneCluster) -> None:
    logs = [path for path in cluster.folder.glob("driver-*/events/**/*") if path.is_file()]
    texts = [path.read_text(errors="replace") for path in logs if not path.name.endswith(".crc")]
    assert any("MicroBatch" in text for text in texts)
    assert not any(ROOT_KEY.secret in text for text in texts)


@pytest.fixture(scope="module")
def facts(server: TalosServer, cluster: StandaloneCluster, key_file: Path) -> dict[str, object]:
    """A sink's job whose executor is killed; what it says, and what its executors are."""
    with TalosAdmin(server.config) as admin:
        admin.topics.create(WRITTEN, partitions=1)
    shared = cluster.folder / "sink"
    shared.mkdir()
    program = cluster.folder / "sink_job.py"
    shutil.copy(sink_job.__file__, program)
    command = [str(program), server.url, str(key_file), WRITTEN, str(shared)]
    shipped = ("--name", "written", "--py-files", str(cluster.package))
    with cluster.driver("driver-3", *shipped, *command, submit=True) as driver:
        eventually("a task has stored some rows", (shared / "begun").exists, state=driver.said)
        (shared / "executors").write_text(shown(cluster.executors()))
        python = psutil.Process(int((shared / "begun").read_text()))
        (lost,) = [it for it in python.parents() if any(EXECUTOR in word for word in it.cmdline())]
        killed(lost)
        assert driver.wait() == 0, driver.said()
        return driver.report("read")


def shown(processes: list[psutil.Process]) -> str:
    """What others see of them."""
    return json.dumps([[it.cmdline(), it.environ()] for it in processes])


def test_a_sink_stores_each_row_once_though_its_executor_is_killed(
    server: TalosServer, facts: dict[str, object]
) -> None:
    stored = [int(data[:4]) for data in read_all(server.config, WRITTEN, 0)]
    assert Counter(stored) == Counter(range(sink_job.ROWS + 1))
    assert facts["read"] == sink_job.ROWS + 1


def test_executors_run_the_shipped_python_and_the_package_of_py_files(
    cluster: StandaloneCluster, facts: dict[str, object]
) -> None:
    executors = facts["executors"]
    assert isinstance(executors, list)
    assert executors
    works = [str(cluster.folder / host / "work") for host in WORKER_HOSTS]
    for found in executors:
        assert Path(found["python"]).is_relative_to(f"{found['folder']}/environment"), found
        assert f"/{cluster.package.name}/opentalos/" in found["package"], found
        assert any(found["folder"].startswith(work) for work in works)
        drivers = f"{cluster.folder}/driver-"
        assert drivers not in json.dumps([found["path"], found["environment"]])


def test_settings_of_the_submission_win(facts: dict[str, object]) -> None:
    assert (facts["name"], facts["memory"]) == ("written", "512m")
    assert facts["time_zone"] == "UTC"


def test_neither_secret_nor_a_path_of_the_driver_is_on_an_executors_command_line(
    cluster: StandaloneCluster, facts: dict[str, object]
) -> None:
    found = (cluster.folder / "sink" / "executors").read_text()
    assert EXECUTOR in found
    assert ROOT_KEY.secret not in found
    assert f"{cluster.folder}/driver-" not in found


def test_the_secret_is_in_no_file_of_an_executor(
    archived: Archiving, facts: dict[str, object], cluster: StandaloneCluster
) -> None:
    files = cluster.work_files()
    assert files
    assert not any(ROOT_KEY.secret in path.read_text(errors="replace") for path in files)
