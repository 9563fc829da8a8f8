"""The stores, each opened once for all tests; Druid is started for them."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from opentalos.backends.druid import DruidBackend
from opentalos.backends.jars import DRUID_KAFKA, fetch
from opentalos.backends.zookeeper import ZookeeperBackend
from opentalos.pipelines.olap.delta_store import DeltaStore
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.store import OlapStore


@pytest.fixture(scope="session")
def run() -> str:
    """Ends the names of tables, so that a store may have those of earlier runs."""
    return secrets.token_hex(4)


@pytest.fixture(scope="session")
def druid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DruidBackend]:
    """A Druid of these tests, with a ZooKeeper of its own."""
    home: Path = tmp_path_factory.mktemp("druid")
    zookeeper, druid = ZookeeperBackend(home), DruidBackend(home)
    fetch(DRUID_KAFKA, print)
    for item in (zookeeper, druid):
        fetch(item.kind, print)
        item.compile_less()
    try:
        zookeeper.start(print, port=0)
        druid.start(print, port=0)
        yield druid
    finally:
        for item in (druid, zookeeper):
            for name in item.names():
                item.daemon(name).kill()


@pytest.fixture(
    scope="module", params=["parquet", "delta", pytest.param("druid", marks=pytest.mark.backend)]
)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OlapStore]:
    opened: OlapStore
    if request.param == "parquet":
        opened = ParquetStore(tmp_path_factory.mktemp("olap"))
    elif request.param == "delta":
        opened = DeltaStore(f"delta+file://{tmp_path_factory.mktemp('olap')}")
    else:
        opened = DruidStore(request.getfixturevalue("druid").url)
    yield opened
    opened.close()
