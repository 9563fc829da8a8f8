"""What goes through the port: timed, counted by outcome, and a log line for what failed."""

import logging
import time
from collections import Counter

from opentalos.gateway.http.exchange import Exchange

PATH_CHARS_MAX = 200
_STATUS = slice(9, 12)  # of a reply's head: "HTTP/1.1 404 ..."

_log = logging.getLogger("opentalos.access")


class Traffic:
    """Each failed request is one line at INFO, each other one at DEBUG; no query, no header.

    Args: lines_per_s_max: of failed requests; more are counted and named by the next line.
    """

    def __init__(self, lines_per_s_max: int) -> None:
        self.failures: Counter[str] = Counter()  # by error; only names that the program has
        self.all_logged = False
        self._lines_max = lines_per_s_max
        self._window_s = float("-inf")
        self._lines = self._left_out = 0

    def look(self) -> None:
        """See whether every request is to be logged; called now and then."""
        self.all_logged = _log.isEnabledFor(logging.DEBUG)

    def ended(self, exchange: Exchange, head: bytes, peer: str) -> None:
        """A request is about to be answered; hot path. Args: head: the first bytes of the reply."""
        timed = exchange.timed
        if timed is not None:
            timed.observe(time.perf_counter() - exchange.started_s)
        if exchange.failure or self.all_logged:
            self._note(exchange, head, exchange.client or peer)

    def refused(self, peer: str, status: int, reason: str) -> None:
        """A request was refused before it was whole."""
        failure = f"http_{status}"
        self.failures[failure] += 1
        if self._may_tell():
            fields = {"peer": peer, "status": status, "error": failure, "reason": reason}
            _log.info("request refused", extra=self._with_left_out(fields))

    def _note(self, exchange: Exchange, head: bytes, peer: str) -> None:
        fields: dict[str, object] = {
            "request": exchange.request_id,
            "peer": peer,
            "method": exchange.method.decode("latin-1"),
            "path": exchange.path[:PATH_CHARS_MAX].decode("latin-1"),
            "status": head[_STATUS].decode("latin-1"),
            "ms": round((time.perf_counter() - exchange.started_s) * 1000, 1),
        }
        if not exchange.failure:
            _log.debug("request", extra=fields)
            return
        self.failures[exchange.failure] += 1
        if self._may_tell():
            fields["error"] = exchange.failure
            _log.info("request failed", extra=self._with_left_out(fields))

    def _may_tell(self) -> bool:
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
