"""Traces of messages through OpenTelemetry: from the producer over the server to the consumer.

Off until ``enable``; needs ``pip install 'opentalos[otel]'``. A message that is put inside a span
carries its context. What processes it opens a span with ``processing``, which continues the trace.
Names and attributes follow OpenTelemetry's conventions for messaging.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from opentalos.model.errors import ConfigError
from opentalos.sdk.core import trace_hooks
from opentalos.sdk.core.trace_hooks import TRACEPARENT
from opentalos.sdk.core.values import Message, Record

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, TracerProvider

LINKS_MAX: Final = 128  # of a span to those of its messages; the OpenTelemetry SDK's default limit

_enabled: "_OpenTelemetry | None" = None


def enable(provider: "TracerProvider | None" = None) -> None:
    """Trace the messages of this process from here on.

    Args:    provider: of spans; None: OpenTelemetry's global one.
    Raises:  ConfigError: OpenTelemetry is not installed.
    """
    global _enabled
    try:
        _enabled = _OpenTelemetry(provider)
    except ImportError as error:
        raise ConfigError(f"traces need pip install 'opentalos[otel]': {error}") from error
    trace_hooks.use(_enabled)


def disable() -> None:
    """Trace no more messages."""
    global _enabled
    _enabled = None
    trace_hooks.use(None)


@contextmanager
def processing(records: Record | Sequence[Record]) -> "Iterator[Span | None]":
    """A span around the processing of a record, in the trace of its producer; around several
    records, linked to each producer's. None while traces are not enabled."""
    if _enabled is None:
        yield None
        return
    with _enabled.processing([records] if isinstance(records, Record) else records) as span:
        yield span


class _OpenTelemetry:
    """Spans by OpenTelemetry."""

    def __init__(self, provider: "TracerProvider | None") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("opentalos", tracer_provider=provider)
        # Not the current context: background tasks inherit that of whoever started them.
        self._request: ContextVar[str | None] = ContextVar("opentalos_traceparent", default=None)

    def current(self) -> str | None:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get(TRACEPARENT)

    def request(self) -> str | None:
        return self._request.get()

    @contextmanager
    def sending(
        self, topic: str, partition: int, messages: Sequence[Message]
    ) -> "Iterator[Span | None]":
        """Without a trace among the messages there is no span: nobody would look for it."""
        if not any(message.traceparent for message in messages):
            yield None
            return
        kind = self._trace.SpanKind.PRODUCER
        with self._span("send", topic, partition, messages, kind) as span:
            token = self._request.set(self.current())
            try:
                yield span
            finally:
                self._request.reset(token)

    @contextmanager
    def processing(self, records: Sequence[Record]) -> "Iterator[Span | None]":
        if not records:
            yield None
            return
        first, kind = records[0], self._trace.SpanKind.CONSUMER
        with self._span("process", first.topic, first.partition, records, kind) as span:
            if len(records) == 1:
                span.set_attribute("messaging.message.id", str(first.offset))
            yield span

    @contextmanager
    def _span(
        self,
        what: str,
        topic: str,
        partition: int,
        messages: Sequence[Message] | Sequence[Record],
        kind: "SpanKind",
    ) -> "Iterator[Span]":
        """Continues the trace of its messages if they have one in common, else links to all."""
        sent = {message.traceparent: None for message in messages if message.traceparent}
        parent, links = self._origin(list(sent)[:LINKS_MAX])
        attributes: dict[str, str | int] = {
            "messaging.system": "talos",
            "messaging.operation.name": what,
            "messaging.operation.type": what,
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partition),
        }
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = len(messages)
        with self._tracer.start_as_current_span(
            f"{what} {topic}", context=parent, kind=kind, links=links, attributes=attributes
        ) as span:
            yield span

    def _origin(self, sent: Sequence[str]) -> "tuple[Context, Sequence[Link]]":
        from opentelemetry.context import Context

        contexts = [self._propagator.extract({TRACEPARENT: text}, Context()) for text in sent]
        if len(contexts) == 1:
            return contexts[0], ()
        spans = [self._trace.get_current_span(context).get_span_context() for context in contexts]
        return Context(), [self._trace.Link(span) for span in spans if span.is_valid]
