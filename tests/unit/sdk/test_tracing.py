"""Traces without a server: what enabling needs, and how many links a span has."""

import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opentalos.model.errors import ConfigError
from opentalos.model.limits import TracingSettings
from opentalos.sdk import Record, tracing
from opentalos.sdk.core.blocks import message_of
from opentalos.sdk.core.values import Message

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    tracing.disable()


def record(number: int, traceparent: str | None) -> Record:
    return Record("t", 0, number, b"", None, None, 0, 0, 1, None, None, traceparent)


def test_traces_need_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'opentalos\[otel\]'"):
        tracing.enable()
    assert message_of(b"x", 1).traceparent is None


def test_a_span_has_so_many_links_at_most() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.enable(provider)
    traces = [f"00-{number:032x}-{number:016x}-01" for number in range(1, 300)]
    with tracing.processing([record(number, text) for number, text in enumerate(traces)]):
        pass
    with tracing.processing([]) as span:
        assert span is None
    (found,) = exporter.get_finished_spans()
    assert len(found.links) == tracing.LINKS_MAX


def test_a_message_keeps_the_trace_it_was_given() -> None:
    tracing.enable()
    given = Message(b"x", create_ms=1, traceparent=TRACE)
    assert message_of(given, 2) is given


def test_a_collector_is_a_url() -> None:
    with pytest.raises(ValueError, match="otlp must be the URL"):
        TracingSettings(otlp="127.0.0.1:4318")
