"""Counts the failed messages of a producer, so that none of them goes unnoticed."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from opentalos.model.errors import TalosError
from opentalos.sdk.core.producer.accumulator import Batch
from opentalos.sdk.core.producer.settings import Outcome, Undelivered, outcome_of
from opentalos.sdk.errors import DeliveryFailed

LOG_S: Final = 10.0  # between two log lines about failed messages of one producer

_log = logging.getLogger("opentalos.sdk.producer")


class Failures:
    """Messages that failed: all of them are counted, those without ``on_error`` are also logged
    and kept for the next ``flush`` or ``close``, which raises them once.

    The loop notes them before their batch is finished, so whoever waited for a batch finds its
    failures here. Any thread may take them.

    Args: now_s: a monotonic clock.
    """

    def __init__(self, topic: str, now_s: Callable[[], float]) -> None:
        self._topic, self._now_s = topic, now_s
        self._lock = threading.Lock()
        self._first: TalosError | None = None  # of those to raise
        self._raised = Undelivered()  # part of ``_unwatched``
        self._unwatched = Undelivered()
        self._logged = Undelivered()  # part of ``_unwatched``
        self._log_at_s = float("-inf")
        self.total = Undelivered()

    def note(self, batch: Batch, error: TalosError | None) -> None:
        """A batch has its outcome; None: it is stored."""
        if error is None:
            return
        unknown, unwatched = outcome_of(error) is Outcome.UNKNOWN, batch.unwatched
        with self._lock:
            self.total = _more(self.total, batch.count, unknown)
            if unwatched:
                self._first = self._first or error
                self._unwatched = _more(self._unwatched, unwatched, unknown)
                self._log(error)

    def _log(self, error: TalosError) -> None:
        now_s = self._now_s()
        if now_s < self._log_at_s:
            return
        self._log_at_s = now_s + LOG_S
        new, self._logged = self._unwatched.since(self._logged), self._unwatched
        _log.error(
            "messages without on_error failed: topic=%s not_stored=%d unknown=%d error=%s: %s",
            self._topic, *new, type(error).__name__, error,
        )  # fmt: skip

    def raise_new(self) -> None:
        """Raises: DeliveryFailed: messages without ``on_error`` failed since the last time."""
        with self._lock:
            first, self._first = self._first, None
            new, self._raised = self._unwatched.since(self._raised), self._unwatched
        if first is not None:
            raise DeliveryFailed(self._topic, *new, first) from first


def _more(counted: Undelivered, messages: int, unknown: bool) -> Undelivered:
    if unknown:
        return Undelivered(counted.not_stored, counted.unknown + messages)
    return Undelivered(counted.not_stored + messages, counted.unknown)
