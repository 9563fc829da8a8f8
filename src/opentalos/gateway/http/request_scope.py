"""Which request a log line belongs to, for work that runs in a task of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from opentalos.gateway.http.exchange import Exchange


class _Scope:
    """Emptied when its request is over: a task that began meanwhile may run for ever, and must
    neither keep the request in memory nor log in its name."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self.exchange: Exchange | None = exchange


_CURRENT: ContextVar[_Scope | None] = ContextVar("opentalos_request", default=None)


@contextmanager
def request_scope(exchange: Exchange) -> Iterator[None]:
    """What is logged inside carries the id of this request."""
    scope = _Scope(exchange)
    token = _CURRENT.set(scope)
    try:
        yield
    finally:
        scope.exchange = None
        _CURRENT.reset(token)


def current_request_id() -> str:
    """Id of the request that is being worked on here, or ""."""
    scope = _CURRENT.get()
    return scope.exchange.request_id if scope is not None and scope.exchange is not None else ""
