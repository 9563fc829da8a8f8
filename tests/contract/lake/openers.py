"""Homes of lake tables that the contract suite runs on."""

import os
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.error import URLError

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet
from tests.contract.openers import Place
from tests.waiting import answering, ended, eventually, limit_s

from opentalos.backends.ports import free_ports
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Layout
from opentalos.pipelines.lake.opening import open_lake_table

LAYOUT = Layout(
    "visits",
    pa.schema(
        [
            pa.field("minute", TIME_TYPE, nullable=False),
            pa.field("page", pa.string(), nullable=False),
            pa.field("visits", pa.int64(), nullable=False),
            pa.field("by_country", pa.map_(pa.string(), pa.int64())),
        ]
    ),
    "minute",
    ("page", "minute"),
)
_BUCKET = "lake"


@dataclass(frozen=True)
class Home:
    """Where one table is; every ``open`` is another client of it."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)

    def open(self, layout: Layout = LAYOUT) -> LakeTable:
        return open_lake_table(self.url, layout, self.options)


@contextmanager
def parquet(place: Place) -> Iterator[Home]:
    yield Home(str(place.folder / "lake" / "visits"))


@contextmanager
def delta_file(place: Place) -> Iterator[Home]:
    yield Home(f"delta+file://{place.folder}/delta")


@contextmanager
def delta_hdfs(place: Place) -> Iterator[Home]:
    yield Home(f"delta+{place.backends().hdfs_url}/lake/{uuid.uuid4().hex}")


@contextmanager
def delta_s3(place: Place) -> Iterator[Home]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (place.folder / "s3.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
        try:
            endpoint = f"http://127.0.0.1:{port}"
            _create_bucket(endpoint)
            options = {
                "AWS_ACCESS_KEY_ID": "any",
                "AWS_SECRET_ACCESS_KEY": "any",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ALLOW_HTTP": "true",
            }
            yield Home(f"delta+s3://{_BUCKET}/{uuid.uuid4().hex}", options)
        finally:
            server.kill()
            ended(server)


def _create_bucket(endpoint: str) -> None:
    request = urllib.request.Request(f"{endpoint}/{_BUCKET}", method="PUT")

    def made() -> bool:
        urllib.request.urlopen(request, timeout=limit_s()).close()
        return True

    eventually("the S3 server creates a bucket", answering(made, URLError))


HOMES: Mapping[str, Callable[[Place], object]] = {
    "parquet": parquet,
    "delta-file": delta_file,
    "delta-hdfs": delta_hdfs,
    "delta-s3": delta_s3,
}
_BACKENDS = ("delta-hdfs", "delta-s3")


DELTA_HOMES: Sequence[str] = tuple(name for name in HOMES if name != "parquet")


def home_params(*names: str) -> list[ParameterSet]:
    """These names, or all, as parameters of a fixture, marked if they start a server."""
    return [
        pytest.param(name, marks=pytest.mark.backend if name in _BACKENDS else ())
        for name in names or HOMES
    ]
