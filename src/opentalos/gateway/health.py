"""/healthz and /readyz: whether the process runs, and whether it serves."""

import json
from collections.abc import Callable, Mapping, Sequence

from opentalos.broker.broker import Broker
from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.reply_format import head

_JSON = b"application/json"
_NO_STORE = b"Cache-Control: no-store\r\n"


class Readiness:
    """Whether a load balancer may send requests to this server, with the reasons if not.

    ``broker`` is None until it is open; ``stopping`` is set when the shutdown begins.
    """

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.stopping = False
        self.descriptors_lacking: Callable[[], bool] = lambda: False

    def routes(self) -> Mapping[bytes, Handler]:
        """Handlers by path."""
        return {b"/healthz": reply_alive, b"/readyz": self.reply}

    def reasons(self) -> Sequence[str]:
        """Why the server is not ready; empty: it is ready."""
        if self.stopping:
            return ["the server is shutting down"]
        if self.broker is None:
            return ["the server is starting: its storage is not open yet"]
        return [] if self.broker.context.log.serving else ["the log is closed"]

    def warnings(self) -> Sequence[str]:
        """Degraded operation: requests are still welcome."""
        if self.broker is None:
            return []
        figures, found = self.broker.context.log.figures, []
        if figures.full:
            found.append("the storage is full: puts are rejected")
        if figures.damaged_segments:
            found.append(
                f"{figures.damaged_segments} segments are damaged: the log names them (scrub: ...)"
            )
        if figures.damaged_partitions:  # whose they are is not for everybody
            found.append(
                "partitions that refuse puts, since their logs are damaged: "
                f"{figures.damaged_partitions} (GET /rest/v1/health names them)"
            )
        unknown = len(self.broker.unknown_topics.found)
        if unknown:
            found.append(
                "stored topics that the catalogue does not know, or knows with fewer partitions: "
                f"{unknown} (the log names them: unknown-topic: ...)"
            )
        refused = len(self.broker.catalogs.principals.seal.refused)
        if refused:
            found.append(
                f"{refused} records of principals are ignored, since their MAC is missing or wrong "
                "(the log names them)"
            )
        cluster = self.broker.membership
        if cluster is not None and not cluster.membership.valid:
            found.append(
                "no valid session with ZooKeeper: open partitions continue, nothing else is "
                "opened, and tables are not written"
            )
        if self.descriptors_lacking():
            found.append(
                "no descriptor was free: connections wait, or files could not be opened; raise the "
                "limit of open files (ulimit -n)"
            )
        if figures.clock_doubt:
            found.append(f"nothing is deleted by age: {figures.clock_doubt}")
        return found

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
    """503: the server has not opened its storage yet."""
    exchange.reply_text(503, "the server is starting")


def _reply(exchange: Exchange, status: int, document: Mapping[str, object]) -> None:
    exchange.reply(head(status, _JSON), json.dumps(document).encode() + b"\n", _NO_STORE)
