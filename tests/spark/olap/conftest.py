"""The stores, each opened once for all tests; Druid is started for them."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.store import OlapStore


@pytest.fixture(scope="session")
def run() -> str:
    """Ends the names of tables, so that a store may have those of earlier runs."""
    return secrets.token_hex(4)


@pytest.fixture(scope="module", params=["parquet"])
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlapStore]:
    opened = ParquetStore(Path(tmp_path_factory.mktemp("olap")))
    yield opened
    opened.close()
