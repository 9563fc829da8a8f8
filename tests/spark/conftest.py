"""One Spark session and one real server for a whole run of these tests."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.server_process import ROOT_KEY, ServerProcess
from tests.spark.java_classes import quick_java
from tests.waiting import answering, eventually

from opentalos.pipelines.session import open_session
from opentalos.sdk import ClientConfig, TalosAdmin
from opentalos.sdk.errors import TopicNotExist


@dataclass(frozen=True)
class TalosServer:
    """A real ``talos serve``, and what a client needs of it."""

    process: ServerProcess
    key: str = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"

    @property
    def url(self) -> str:
        return self.process.url

    @property
    def config(self) -> ClientConfig:
        """For the SDK."""
        return ClientConfig(endpoints=(self.url,), key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)

    @property
    def data(self) -> Path:
        return self.process.data

    def wait_for_topic(self, name: str) -> None:
        """A new server makes its own topics when it has become ready."""
        with TalosAdmin(self.config) as admin:
            there = answering(lambda: bool(admin.offsets(name)), TopicNotExist)
            eventually(f"topic {name} is there", there)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; only one can be in a process, so nobody stops it."""
    local = str(tmp_path_factory.mktemp("spark"))
    conf = {
        "spark.local.dir": local,
        "spark.sql.warehouse.dir": f"{local}/warehouse",
        **quick_java(),
    }
    session = open_session("tests", master="local[2]", conf=conf)
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TalosServer]:
    """One server for all; a test takes topics of its own names."""
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    process.start()
    try:
        yield TalosServer(process)
    finally:
        process.stop()
