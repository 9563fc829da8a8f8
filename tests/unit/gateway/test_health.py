"""A server is ready only while it serves."""

from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.gateway.health import Readiness


def broker(*, serving: bool = True, full: bool = False, member: bool | None = None) -> Any:
    log = SimpleNamespace(serving=serving, figures=SimpleNamespace(full=full))
    cluster = None
    if member is not None:
        cluster = SimpleNamespace(membership=SimpleNamespace(valid=member))
    return SimpleNamespace(context=SimpleNamespace(log=log), membership=cluster)


def ready(found: Any, *, stopping: bool = False) -> Readiness:
    made = Readiness()
    made.broker, made.stopping = found, stopping
    return made


@pytest.mark.parametrize(
    ("readiness", "reason"),
    [
        (ready(None), "storage is not open"),
        (ready(broker(), stopping=True), "shutting down"),
        (ready(broker(serving=False)), "log is closed"),
        (ready(broker(member=False)), "not a cluster member"),
    ],
)
def test_what_prevents_readiness_is_reported(readiness: Readiness, reason: str) -> None:
    (found,) = readiness.reasons()
    assert reason in found


@pytest.mark.parametrize("found", [broker(), broker(member=True)])
def test_a_server_that_serves_is_ready(found: Any) -> None:
    assert not ready(found).reasons()
    assert not ready(found).warnings()


def test_a_full_storage_is_a_warning_since_reads_continue() -> None:
    readiness = ready(broker(full=True))
    assert not readiness.reasons()
    assert "puts are rejected" in readiness.warnings()[0]
