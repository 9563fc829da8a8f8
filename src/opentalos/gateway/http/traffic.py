"""Access log of the port: latency histograms, failure counters, and a log line per failure."""

import logging
import time
from collections import Counter
from collections.abc import Callable

from opentalos.gateway.http.exchange import Exchange

PATH_CHARS_MAX = 200
TRACEPARENT = b"traceparent"  # of W3C Trace Context
_STATUS, _STATUS_END = 9, 12  # of a reply's head: "HTTP/1.1 404 ..."

_log = logging.getLogger("opentalos.access")


class Traffic:
    """Logs failed requests at INFO and others at DEBUG, without query and headers.

    Args: lines_per_s_max: log lines of failed requests; the next line counts those left out.
    """

    def __init__(self, lines_per_s_max: int) -> None:
        self.failures: Counter[str] = (
            Counter()
        )  # by error name; bounded, since the names are those of our classes
        self.all_logged = False
        # Called with the status of each answered request that belongs to a trace.
        self.traced: Callable[[Exchange, int], None] | None = None
        self._lines_max = lines_per_s_max
        self._window_s = float("-inf")
        self._lines = self._left_out = 0

    def refresh(self) -> None:
        """Check whether every request is logged; the server's sweep calls this."""
        self.all_logged = _log.isEnabledFor(logging.DEBUG)

    def ended(self, exchange: Exchange, head: bytes, peer: str) -> None:
        """A request is about to be answered (hot path). Args: head: start of the reply."""
        timed = exchange.timed
        if timed is not None:
            timed.observe(time.perf_counter() - exchange.started_s)
        if self.traced is not None and TRACEPARENT in exchange.headers:
            self.traced(exchange, int(head[_STATUS:_STATUS_END]))
        if exchange.failure or self.all_logged:
            self._note(exchange, head, exchange.client or peer)

    def refused(self, peer: str, status: int, reason: str) -> None:
        """A request was rejected before it was complete."""
        failure = f"http_{status}"
        self.failures[failure] += 1
        if self._may_log():
            fields = {"peer": peer, "status": status, "error": failure, "reason": reason}
            _log.info("request rejected", extra=self._with_left_out(fields))

    def _note(self, exchange: Exchange, head: bytes, peer: str) -> None:
        fields: dict[str, object] = {
            "request": exchange.request_id,
            "peer": peer,
            "method": exchange.method.decode("latin-1"),
            "path": exchange.path[:PATH_CHARS_MAX].decode("latin-1"),
            "status": head[_STATUS:_STATUS_END].decode("latin-1"),
            "ms": round((time.perf_counter() - exchange.started_s) * 1000, 1),
        }
        if not exchange.failure:
            _log.debug("request", extra=fields)
            return
        self.failures[exchange.failure] += 1
        if self._may_log():
            fields["error"] = exchange.failure
            _log.info("request failed", extra=self._with_left_out(fields))

    def _may_log(self) -> bool:
        now_s = time.perf_counter()
        if now_s - self._window_s >= 1.0:
            self._window_s, self._lines = now_s, 0
        self._lines += 1
        if self._lines <= self._lines_max:
            return True
        self._left_out += 1
        return False

    def _with_left_out(self, fields: dict[str, object]) -> dict[str, object]:
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        return fields
