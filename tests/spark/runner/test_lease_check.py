"""A run asks a real server whether it still has its lease."""

from pathlib import Path

import pytest
from tests.spark.conftest import TalosServer

from opentalos.backends.ports import free_ports
from opentalos.model.errors import LeaseNotHeld, Unavailable
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.home_id import lease_name
from opentalos.pipelines.runtime.lease_check import confirm_lease
from opentalos.sdk.rest_client import RestClient

PIPELINE = "monitoring"


def take(server: TalosServer, name: str, holder: str) -> int:
    document = {"holder": holder, "ttl_ms": 60_000}
    return int(RestClient(server.config)("PUT", f"leases/{name}", document)["epoch"])


def test_a_lease_is_confirmed_until_another_run_has_it(server: TalosServer, tmp_path: Path) -> None:
    settings = PipelineSettings(url=server.url, key=server.key, home=tmp_path)
    name = lease_name(PIPELINE, tmp_path)
    epoch = take(server, name, "first")
    confirm_lease(settings, PIPELINE, epoch)
    RestClient(server.config)("DELETE", f"leases/{name}")
    with pytest.raises(LeaseNotHeld, match=f"under epoch {epoch}: nobody holds it"):
        confirm_lease(settings, PIPELINE, epoch)
    later = take(server, name, "second")
    with pytest.raises(LeaseNotHeld, match=f"second holds it under epoch {later}; another run"):
        confirm_lease(settings, PIPELINE, epoch)
    confirm_lease(settings, PIPELINE, later)


def test_without_a_server_a_lease_is_not_confirmed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = PipelineSettings(url=f"http://127.0.0.1:{port}", key="a:b", home=tmp_path)
    with pytest.raises(Unavailable):
        confirm_lease(settings, PIPELINE, 1)
    confirm_lease(settings, PIPELINE, 0)  # a run without a lease asks nobody
