"""/healthz and /readyz: whether the process runs, and whether it serves."""

import json
from collections.abc import Mapping, Sequence

from opentalos.broker.broker import Broker
from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.reply_format import head

_JSON = b"application/json"
_NO_STORE = b"Cache-Control: no-store\r\n"


class Readiness:
    """Why this server should get no requests now; ready when there is no reason.

    ``broker`` is None until it is open; ``stopping`` is set as soon as the end is near.
    """

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.stopping = False

    def routes(self) -> Mapping[bytes, Handler]:
        """Handlers by path."""
        return {b"/healthz": reply_alive, b"/readyz": self.reply}

    def reasons(self) -> Sequence[str]:
        """All that stand against it."""
        if self.stopping:
            return ["the server stops"]
        if self.broker is None:
            return ["the server starts: its storage is not open yet"]
        found = []
        if not self.broker.context.log.serving:
            found.append("the log is closed")
        cluster = self.broker.membership
        if cluster is not None and not cluster.membership.valid:
            found.append("no valid session with the cluster: this server is no member now")
        return found

    def warnings(self) -> Sequence[str]:
        """What works with a limit: reads go on, so requests may come."""
        if self.broker is not None and self.broker.context.log.figures.full:
            return ["the storage is full: puts are refused"]
        return []

    def reply(self, exchange: Exchange) -> None:
        """200 when ready, else 503 with the reasons."""
        reasons, warnings = self.reasons(), self.warnings()
        if reasons:
            exchange.failure = "not_ready"
            _reply(exchange, 503, {"status": "unavailable", "reasons": list(reasons)})
        elif warnings:
            _reply(exchange, 200, {"status": "ok", "warnings": list(warnings)})
        else:
            _reply(exchange, 200, {"status": "ok"})


def reply_alive(exchange: Exchange) -> None:
    """The process runs and answers."""
    _reply(exchange, 200, {"status": "ok"})


def reply_starting(exchange: Exchange) -> None:
    """Not done: the server has not opened its storage yet."""
    exchange.reply_text(503, "the server is starting")


def _reply(exchange: Exchange, status: int, document: Mapping[str, object]) -> None:
    exchange.reply(head(status, _JSON), json.dumps(document).encode() + b"\n", _NO_STORE)
