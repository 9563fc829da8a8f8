"""A server is ready only while it serves."""

from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.gateway.health import Readiness


def broker(
    *,
    serving: bool = True,
    full: bool = False,
    damaged: int = 0,
    refusing: int = 0,
    member: bool | None = None,
    doubt: str = "",
    refused: int = 0,
    unknown: int = 0,
) -> Any:
    figures = SimpleNamespace(
        full=full, damaged_segments=damaged, damaged_partitions=refusing, clock_doubt=doubt
    )
    log = SimpleNamespace(serving=serving, figures=figures)
    cluster = None
    if member is not None:
        cluster = SimpleNamespace(membership=SimpleNamespace(valid=member))
    seal = SimpleNamespace(refused=dict.fromkeys(range(refused)))
    return SimpleNamespace(
        context=SimpleNamespace(log=log),
        membership=cluster,
        unknown_topics=SimpleNamespace(found=[None] * unknown),
        catalogs=SimpleNamespace(principals=SimpleNamespace(seal=seal)),
    )


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
    ],
)
def test_what_prevents_readiness_is_reported(readiness: Readiness, reason: str) -> None:
    (found,) = readiness.reasons()
    assert reason in found


@pytest.mark.parametrize("found", [broker(), broker(member=True)])
def test_a_server_that_serves_is_ready(found: Any) -> None:
    assert not ready(found).reasons()
    assert not ready(found).warnings()


def test_damage_that_the_scrub_found_is_a_warning() -> None:
    readiness = ready(broker(damaged=2))
    assert not readiness.reasons()
    assert readiness.warnings()[0].startswith("2 segments are damaged")


def test_stored_topics_that_the_catalogue_does_not_know_are_a_warning() -> None:
    readiness = ready(broker(unknown=2))
    assert not readiness.reasons()
    (text,) = readiness.warnings()
    assert text.startswith("stored topics that the catalogue does not know")
    assert ": 2 (the log names them" in text


def test_partitions_that_refuse_puts_since_they_are_damaged_are_a_warning() -> None:
    readiness = ready(broker(refusing=2))
    assert not readiness.reasons()
    (text,) = readiness.warnings()
    assert text.startswith("partitions that refuse puts")
    assert ": 2 (GET /rest/v1/health" in text


def test_principals_whose_records_are_ignored_are_a_warning() -> None:
    readiness = ready(broker(refused=2))
    assert not readiness.reasons()
    assert readiness.warnings()[0].startswith("2 records of principals are ignored")


def test_a_server_without_coordination_is_ready_since_open_partitions_go_on() -> None:
    readiness = ready(broker(member=False))
    assert not readiness.reasons()
    assert "open partitions continue" in readiness.warnings()[0]


def test_a_full_storage_is_a_warning_since_reads_continue() -> None:
    readiness = ready(broker(full=True))
    assert not readiness.reasons()
    assert "puts are rejected" in readiness.warnings()[0]


def test_a_clock_in_doubt_is_a_warning() -> None:
    readiness = ready(broker(doubt="the wall clock is 8.0 d ahead of the cluster's clock"))
    assert not readiness.reasons()
    (text,) = readiness.warnings()
    assert text == (
        "nothing is deleted by age: the wall clock is 8.0 d ahead of the cluster's clock"
    )


def test_a_lack_of_descriptors_is_a_warning_that_says_what_to_raise() -> None:
    readiness = ready(broker())
    readiness.descriptors_lacking = lambda: True
    assert not readiness.reasons()
    (warning,) = readiness.warnings()
    assert "ulimit -n" in warning
