"""The request that a log line belongs to, for work in other tasks."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class ScopedRequest(Protocol):
    """A request of any protocol, as log lines and the audit name it."""

    @property
    def peer(self) -> str: ...  # address of the client
    @property
    def request_id(self) -> str: ...


class _Scope:
    """Cleared when its request ends: a task that started meanwhile may run on, and must neither
    keep the request in memory nor log under its id."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: ScopedRequest) -> None:
        self.exchange: ScopedRequest | None = exchange


_CURRENT: ContextVar[_Scope | None] = ContextVar("opentalos_request", default=None)


@contextmanager
def request_scope(exchange: ScopedRequest) -> Iterator[None]:
    """Log lines inside this block have the id of the request."""
    scope = _Scope(exchange)
    token = _CURRENT.set(scope)
    try:
        yield
    finally:
        scope.exchange = None
        _CURRENT.reset(token)


def current_peer() -> str:
    """Address of the client of the current request, also if it was forwarded; or ""."""
    scope = _CURRENT.get()
    return scope.exchange.peer if scope is not None and scope.exchange is not None else ""


def current_request_id() -> str:
    """Id of the current request, or ""."""
    scope = _CURRENT.get()
    return scope.exchange.request_id if scope is not None and scope.exchange is not None else ""
