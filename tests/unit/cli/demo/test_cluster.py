"""The health and ownership that the cluster demo shows."""

import json
import time
from pathlib import Path

import pytest

from opentalos.backends.ports import HOST
from opentalos.cli.demo.cluster import _PARTITIONS, _Server, _View

SERVERS = [_Server(name, Path(), port, "ID:SECRET") for name, port in (("s1", 1), ("s2", 2))]


def report(silent_s: float, *, known: bool = True) -> str:
    """A line of the traffic program: s1 has even partitions."""
    owners = {str(number): f"{HOST}:{1 + number % 2}" for number in range(_PARTITIONS)}
    line = {"acked": 1, "failed": 0, "silent_s": silent_s, "owners": owners if known else {}}
    return json.dumps(line)


def test_nothing_is_healthy_before_the_first_report() -> None:
    view = _View(SERVERS)
    assert view.silent_s < 60
    assert not view.works(view.began)
    assert not view.owned(SERVERS[0])


def test_acknowledgements_before_an_event_do_not_count_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.cli.demo.cluster._SILENCE_S_MAX", 7_200.0)
    view = _View(SERVERS)
    before = time.monotonic() - 1
    view.follow(iter([report(0.0)]))
    killed = time.monotonic()
    assert view.works(before)
    assert not view.works(killed)
    view.follow(iter([report(3_600)]))  # reported afterwards, about the time before
    assert not view.works(killed)


def test_owners_stay_on_show_without_a_report_of_them() -> None:
    view = _View(SERVERS)
    view.follow(iter([report(0.0), report(0.0, known=False)]))
    assert view.owned(SERVERS[1]) == list(range(1, _PARTITIONS, 2))
    assert not view.works(view.began - 1)


def test_a_server_that_restarts_keeps_its_partitions_on_show() -> None:
    view = _View(SERVERS)
    view.follow(iter([report(0.0)]))
    view.kept["s2"] = [0]
    assert view.owned(SERVERS[1]) == [0]
    assert 0 not in view.owned(SERVERS[0])
    assert 0 in view.addressed(SERVERS[0])
