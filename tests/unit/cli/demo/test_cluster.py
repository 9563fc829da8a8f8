"""The health and ownership that the cluster demo shows."""

import json
import subprocess
import sys
import time
from pathlib import Path

import click
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


def test_what_comes_too_late_is_named_with_the_servers_and_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.cli.demo.cluster._EVENT_TIMEOUT_S", -1.0)
    (tmp_path / "log").write_text("first\nno DataNode has room\n")
    view = _View([_Server("s1", tmp_path, 1, "ID:SECRET")])
    with pytest.raises(click.ClickException) as caught:
        view.until(lambda: False, "s1 is ready")
    late, server, machine = caught.value.message.splitlines()
    assert late == "not within 0 s: s1 is ready"
    assert server == "s1 is starting with 0 partitions; last in its log: no DataNode has room"
    assert "MB of memory free: end other programs" in machine


def test_nothing_is_awaited_once_the_traffic_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], text=True) as program:
        program.wait()
        view = _View(SERVERS, program=program)
        with pytest.raises(click.ClickException, match="exited with status 3"):
            view.until(lambda: False, "partitions acknowledge")
