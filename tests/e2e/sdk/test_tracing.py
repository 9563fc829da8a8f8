"""Traces from a producer over the server to a consumer, with OpenTelemetry and a collector."""

import asyncio
import http.client
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer
from tests.e2e.sdk.conftest import config_of
from tests.e2e.sdk.otlp_collector import Collector
from tests.server_process import ServerProcess
from tests.waiting import eventually, limit_s

from opentalos.sdk import (
    Message,
    Record,
    SimpleConsumer,
    SimpleProducer,
    TalosAdmin,
    TalosProducer,
    aio,
)
from opentalos.sdk import tracing as traces

PUT = "putMessage"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "100"}  # ms between two exports of the server


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.close()


@pytest.fixture(scope="module")
def traced_server(
    collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    config = f'[tracing]\notlp = "{collector.url}"\n'
    folder = tmp_path_factory.mktemp("traced")
    running = ServerProcess(folder, config=config, environment=QUICK).start()
    yield running
    running.stop()


class Ours:
    """Spans of this process."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = self.provider.get_tracer("tests")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def ours() -> Iterator[Ours]:
    made = Ours()
    traces.enable(made.provider)
    yield made
    traces.disable()


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent and span.parent.span_id


def test_one_trace_goes_from_the_producer_over_the_server_to_the_consumer(
    traced_server: ServerProcess, collector: Collector, ours: Ours
) -> None:
    config = config_of(traced_server.url)
    TalosAdmin(config).topics.create("traced", partitions=1)
    with SimpleProducer(config, "traced") as producer:
        with ours.tracer.start_as_current_span("order"):
            producer.put([b"one"])
    with SimpleConsumer(config, "traced") as consumer:
        (record,) = consumer.fetch(0, 0)
    with traces.processing(record), ours.tracer.start_as_current_span("bill"):
        pass
    order, send = ours.one("order"), ours.one("send traced")
    process, bill = ours.one("process traced"), ours.one("bill")
    assert (parent_of(send), parent_of(process)) == (id_of(order), id_of(order))
    assert parent_of(bill) == id_of(process)
    attributes = dict(process.attributes or {})
    assert attributes["messaging.destination.partition.id"] == "0"
    assert attributes["messaging.message.id"] == "0"

    def puts() -> list[Span]:
        mine = trace_of(order).to_bytes(16, "big")
        return [span for span in collector.spans if (span.trace_id, span.name) == (mine, PUT)]

    (served,) = eventually("the collector has the span of the put", puts)
    assert served.parent_span_id == id_of(send).to_bytes(8, "big")
    named = {item.key: item.value for item in served.attributes}
    assert named["http.response.status_code"].int_value == 200
    assert named["opentalos.request_id"].string_value
    assert send.start_time is not None
    assert send.start_time <= served.start_time_unix_nano < served.end_time_unix_nano
    assert served.end_time_unix_nano <= time.time_ns()
    assert collector.services == {"opentalos"}


async def test_a_batch_of_several_traces_is_linked_to_each(
    traced_server: ServerProcess, ours: Ours
) -> None:
    async with aio.Client(config_of(traced_server.url)) as client:
        await aio.TalosAdmin(client).topics.create("batch", partitions=1)
        async with aio.TalosProducer(client, "batch") as producer:
            with ours.tracer.start_as_current_span("first"):
                await producer.put(b"0")
            await producer.flush()
            for name in ("second", "third"):
                with ours.tracer.start_as_current_span(name):
                    await asyncio.gather(*(producer.put(b"x") for _ in range(5)))
            await producer.put(b"untraced")
            await producer.flush()
        records: list[Record] = []
        while len(records) < 12:
            records += await aio.SimpleConsumer(client, "batch").fetch(0, len(records))
    with traces.processing(records):
        pass
    expected = {trace_of(ours.one(name)) for name in ("first", "second", "third")}
    processed = ours.one("process batch")
    assert {link.context.trace_id for link in processed.links} == expected
    assert trace_of(processed) not in expected
    sent = ours.named("send batch")
    reached = {link.context.trace_id for span in sent for link in span.links}
    assert reached | {trace_of(span) for span in sent} >= expected
    assert [record.traceparent is None for record in records] == [False] * 11 + [True]


def test_the_thread_of_a_put_says_which_trace(traced_server: ServerProcess, ours: Ours) -> None:
    """The producer's loop runs in another one, started inside another span."""
    config = config_of(traced_server.url)
    TalosAdmin(config).topics.create("threads", partitions=1)
    with ours.tracer.start_as_current_span("start"):
        producer = TalosProducer(config, "threads")
        producer.put(b"0")
        producer.flush()
    producer.put(b"1")
    producer.flush()
    with ours.tracer.start_as_current_span("later"):
        producer.put(Message(b"2", "key"))
    producer.close()
    assert [parent_of(span) for span in ours.named("send threads")] == [
        id_of(ours.one("start")),
        id_of(ours.one("later")),
    ]


def test_a_failed_put_is_an_error_of_its_span(traced_server: ServerProcess, ours: Ours) -> None:
    with SimpleProducer(config_of(traced_server.url), "faulty") as producer:
        TalosAdmin(config_of(traced_server.url)).topics.create("faulty", partitions=1)
        with ours.tracer.start_as_current_span("order"), pytest.raises(Exception, match="partit"):
            producer.put([b"x"], partition=7)
    assert not ours.one("send faulty").status.is_ok


def test_nothing_is_traced_unless_enabled(traced_server: ServerProcess) -> None:
    made = Ours()
    config = config_of(traced_server.url)
    TalosAdmin(config).topics.create("off", partitions=1)
    with SimpleProducer(config, "off") as producer:
        with made.tracer.start_as_current_span("order"):
            producer.put([b"one"])
    with SimpleConsumer(config, "off") as consumer:
        (record,) = consumer.fetch(0, 0)
    assert record.traceparent is None
    with traces.processing(record) as span:
        assert span is None
    assert [one.name for one in (made.one("order"),)] == ["order"]


@pytest.mark.parametrize("sent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "é"])
def test_a_header_that_is_no_context_is_ignored(
    traced_server: ServerProcess, collector: Collector, sent: str
) -> None:
    """A valid one that follows it is the only new span."""

    def asked() -> list[bytes]:
        return [span.trace_id for span in collector.spans if span.name == "GET"]

    before, trace = asked(), os.urandom(16)
    for header in (sent, f"00-{trace.hex()}-{'7' * 16}-01"):
        connection = http.client.HTTPConnection("127.0.0.1", traced_server.port, timeout=limit_s())
        connection.putrequest("GET", "/readyz")
        connection.putheader("traceparent", header.encode())
        connection.endheaders()
        assert connection.getresponse().status == 200
        connection.close()
    eventually("the collector has the span of the valid header", lambda: trace in asked())
    assert asked() == [*before, trace]


def test_a_collector_that_is_gone_harms_nothing(tmp_path: Path, ours: Ours) -> None:
    config = '[tracing]\notlp = "http://127.0.0.1:9"\n'
    server = ServerProcess(tmp_path, config=config, environment=QUICK).start()
    try:
        TalosAdmin(config_of(server.url)).topics.create("lone", partitions=1)
        with SimpleProducer(config_of(server.url), "lone") as producer:
            for _ in range(50):
                with ours.tracer.start_as_current_span("order"):
                    producer.put([b"one"])
    finally:
        server.stop()
    assert len(ours.named("send lone")) == 50
