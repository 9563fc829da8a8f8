"""Where the SDK asks for traces; nothing happens until ``opentalos.sdk.tracing`` is enabled."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from opentalos.wire.message import Message

TRACEPARENT = "traceparent"  # header of a request, of W3C Trace Context


class Traces(Protocol):
    """What traces messages."""

    def current(self) -> str | None:
        """The context of the caller's span; None: it has none."""

    def sending(
        self, topic: str, partition: int, messages: Sequence[Message]
    ) -> AbstractContextManager[object]:
        """A span around a put of messages, as a context."""

    def request(self) -> str | None:
        """The context for a request of the span that ``sending`` opened; None: it opened none."""


_traces: Traces | None = None


def use(traces: Traces | None) -> None:
    """From here on ask this one; None: nobody."""
    global _traces
    _traces = traces


def traceparent() -> str | None:
    """The context of the caller's span, for a message that it puts."""
    return None if _traces is None else _traces.current()


def request_traceparent() -> str | None:
    """The context for a request."""
    return None if _traces is None else _traces.request()


def sending(
    topic: str, partition: int, messages: Sequence[Message]
) -> AbstractContextManager[object]:
    """A span around a put of messages, if any of them belongs to a trace."""
    return nullcontext() if _traces is None else _traces.sending(topic, partition, messages)
