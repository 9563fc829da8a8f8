"""The leases of a run against a service that refuses, vanishes, or gives them to others."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import limit_s, scale

from opentalos.model.errors import (
    ConfigError,
    LeaseHeld,
    LeaseNotHeld,
    PermissionDenied,
    TalosError,
    Unavailable,
)
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime import run_leases
from opentalos.pipelines.runtime.home_id import LeaseNote, home_id
from opentalos.pipelines.runtime.run_leases import RunLeases
from opentalos.pipelines.runtime.run_plan import Event, PipelineFailed, RunPlan


@dataclass
class Service:
    """The leases of a server; ``refuse`` may raise at each call."""

    refuse: Callable[[str, dict[str, Any]], None] = lambda method, document: None
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    epoch: int = 0

    def __call__(
        self, method: str, path: str, document: Any = None, *, query: Any = None
    ) -> dict[str, Any] | None:
        given = dict(document or query or {})
        self.calls.append((method, path, given))
        self.refuse(method, given)
        if method == "DELETE":
            return None
        if "epoch" not in given:
            self.epoch = max(self.epoch, given.get("seen", 0)) + 1
        return {"epoch": self.epoch}

    def made(self, method: str) -> list[dict[str, Any]]:
        return [given for called, _, given in self.calls if called == method]


class Run:
    """The leases of a run on a home."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, **plan: Any) -> None:
        self.service = Service()
        monkeypatch.setattr(run_leases, "RestClient", lambda *_: self.service)
        monkeypatch.setattr(run_leases, "_POLL_S", 0.01)
        monkeypatch.setattr(run_leases, "_ASK_S", 0.01)
        settings = PipelineSettings(url="http://127.0.0.1:9", key="a:b", home=home)
        self.lost = threading.Event()
        self.said: list[Event] = []
        self.leases = RunLeases(
            RunPlan(names=("archive",), settings=settings, **plan), self.said.append, self.lost.set
        )
        self.pauses = 0

    def pause(self) -> None:
        self.pauses += 1


def test_a_lease_is_taken_renewed_and_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, lease_s=3.0 * scale())
    renewed = threading.Event()
    run.service.refuse = lambda method, given: renewed.set() if "epoch" in given else None
    assert run.leases.take("archive", run.pause) == 1
    assert renewed.wait(limit_s())
    run.leases.release()
    method, path, given = run.service.calls[-1]
    assert (method, path, given) == ("DELETE", f"leases/archive-{home_id(tmp_path)}", {"epoch": 1})
    assert not run.lost.is_set()
    note = LeaseNote.read(tmp_path, "archive")
    assert note is not None
    assert note.epoch == 1


def test_the_next_run_of_the_home_names_the_last_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that its epoch is higher also at a service that was restored from a backup."""
    LeaseNote(41, "elsewhere", 1, 0.0).write(tmp_path, "archive")
    run = Run(tmp_path, monkeypatch)
    assert run.leases.take("archive", run.pause) == 42
    run.leases.release()
    assert run.service.made("DELETE") == [{"epoch": 42}], "a run elsewhere may live"


def test_a_lease_of_a_killed_run_of_this_host_need_not_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = LeaseNote.of_this_process(7)
    LeaseNote(note.epoch, note.host, note.pid, note.began - 1).write(tmp_path, "archive")
    run = Run(tmp_path, monkeypatch)
    run.leases.take("archive", run.pause)
    run.leases.release()
    assert run.service.made("DELETE")[0] == {"epoch": 7}


def test_a_supervised_run_waits_as_long_as_another_one_has_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, supervised=True, lease_s=3.0)
    left = iter(range(5))

    def refuse(method: str, given: dict[str, Any]) -> None:
        if method == "PUT" and next(left, None) is not None:
            raise LeaseHeld("lease archive is held by host:2")

    run.service.refuse = refuse
    assert run.leases.take("archive", run.pause) == 1
    run.leases.release()
    assert run.pauses > 0
    (said,) = [event.text for event in run.said]
    assert said.startswith("standby: archive waits for its lease: lease archive is held by host:2")


def test_another_run_ends_when_the_holder_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, lease_s=0.1)

    def refuse(method: str, given: dict[str, Any]) -> None:
        raise LeaseHeld("lease archive is held by host:2")

    run.service.refuse = refuse
    with pytest.raises(ConfigError, match="archive is already running: lease archive is held by"):
        run.leases.take("archive", run.pause)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(Unavailable("down"), PipelineFailed), (PermissionDenied("no"), PermissionDenied)],
)
def test_a_service_that_does_not_answer_or_allow_it_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TalosError, raised: type[TalosError]
) -> None:
    run = Run(tmp_path, monkeypatch, outage_s=0.05)

    def refuse(method: str, given: dict[str, Any]) -> None:
        raise error

    run.service.refuse = refuse
    with pytest.raises(raised):
        run.leases.take("archive", run.pause)


def refusing_renewals(error: TalosError) -> Callable[[str, dict[str, Any]], None]:
    def refuse(method: str, given: dict[str, Any]) -> None:
        if method == "PUT" and "epoch" in given:
            raise error

    return refuse


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LeaseNotHeld("host:2 holds it under epoch 2"), "host:2 holds it under epoch 2"),
        (Unavailable("no reply"), "could not be renewed for"),
        (PermissionDenied("the key was deleted"), "could not be renewed for"),
    ],
)
def test_a_lost_lease_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TalosError, reason: str
) -> None:
    run = Run(tmp_path, monkeypatch, lease_s=0.3)
    run.service.refuse = refusing_renewals(error)
    run.leases.take("archive", run.pause)
    assert run.lost.wait(limit_s())
    assert reason in run.leases.lost
    run.leases.release()
    assert run.service.made("DELETE") == [], "it belongs to another run"
    assert [event.text for event in run.said] == [run.leases.lost]


def test_a_renewal_that_hangs_does_not_keep_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, lease_s=0.3)
    answered = threading.Event()

    def hang(method: str, given: dict[str, Any]) -> None:
        if "epoch" in given:
            answered.wait(limit_s())

    run.service.refuse = hang
    run.leases.take("archive", run.pause)
    assert run.lost.wait(limit_s())
    answered.set()
    run.leases.release()


def test_a_run_that_does_not_end_after_the_loss_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, lease_s=0.3)
    exited = threading.Event()
    monkeypatch.setattr(run_leases, "_EXIT_S", 0.01)
    monkeypatch.setattr("os._exit", lambda status: exited.set())
    run.service.refuse = refusing_renewals(LeaseNotHeld("gone"))
    run.leases.take("archive", run.pause)
    assert exited.wait(limit_s())
    run.leases.release()
