"""Failed messages: those nobody watches are logged and raised once, all are counted."""

import logging
import pickle
from typing import Any

import pytest

from opentalos.model.errors import OutcomeUnknown, PermissionDenied, TalosError
from opentalos.sdk.aio.producer.failures import LOG_S, Failures
from opentalos.sdk.core.producer.accumulator import Batch, Watcher
from opentalos.sdk.core.producer.settings import Undelivered
from opentalos.sdk.core.values import Message
from opentalos.sdk.errors import DeliveryFailed

DENIED, LOST = PermissionDenied("no"), OutcomeUnknown("no reply")


class Bench:
    """Failures with a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.failures = Failures("orders", lambda: self.now_s)

    def end(self, error: TalosError | None, *, messages: int = 3, watched: int = 0) -> None:
        """A batch ends, of which so many messages have an on_error."""
        batch = Batch(0, 1, 0.0, 0)
        batch.messages = [Message(b"x")] * messages
        batch.watchers = [Watcher(place, None, print) for place in range(watched)]
        batch.watchers.append(
            Watcher(messages - 1, print, None)
        )  # it wants to know of success only
        self.failures.note(batch, error)


def test_failures_that_nobody_watches_are_raised_once() -> None:
    bench = Bench()
    bench.end(None)
    bench.failures.raise_new()
    bench.end(DENIED)
    bench.end(LOST, messages=2, watched=1)
    with pytest.raises(DeliveryFailed) as raised:
        bench.failures.raise_new()
    assert (raised.value.not_stored, raised.value.unknown) == (3, 1)
    assert raised.value.first is raised.value.__cause__ is DENIED
    assert str(raised.value) == (
        "delivery to topic orders failed: 3 of the messages without on_error are not stored, "
        "1 may be stored: PermissionDenied: no; pass on_error to learn which"
    )
    bench.failures.raise_new()
    bench.end(LOST)
    with pytest.raises(DeliveryFailed) as again:
        bench.failures.raise_new()
    assert (again.value.not_stored, again.value.unknown, again.value.first) == (0, 3, LOST)


def test_a_failure_that_on_error_reports_is_counted_only(caplog: Any) -> None:
    bench = Bench()
    bench.end(DENIED, messages=3, watched=3)
    bench.failures.raise_new()
    assert bench.failures.total == Undelivered(3, 0)
    assert caplog.records == []


def test_rows_are_watched_together() -> None:
    batch = Batch(0, 1, 0.0, 0)
    batch.rows = range(40)
    assert (batch.count, batch.unwatched) == (40, 40)
    batch.watchers = [Watcher(0, None, print)]
    assert batch.unwatched == 0


def test_many_failures_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with caplog.at_level(logging.ERROR):
        for _ in range(50):
            bench.end(DENIED)
        bench.now_s += LOG_S
        bench.end(LOST)
    assert [record.getMessage() for record in caplog.records] == [
        "messages without on_error failed: topic=orders not_stored=3 unknown=0 "
        "error=PermissionDenied: no",
        "messages without on_error failed: topic=orders not_stored=147 unknown=3 "
        "error=OutcomeUnknown: no reply",
    ]


def test_a_delivery_failure_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(DeliveryFailed("orders", 1, 2, DENIED)))
    assert (error.topic, error.not_stored, error.unknown) == ("orders", 1, 2)
    assert isinstance(error.first, PermissionDenied)
    assert isinstance(error, OutcomeUnknown), "to send everything again may store some twice"
