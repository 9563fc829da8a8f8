"""Spans of traced requests, sent to a collector by OTLP."""

import asyncio
import logging
import time
from typing import Final

from opentalos.adapters.io_threads import IoThreads
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.traffic import PATH_CHARS_MAX, TRACEPARENT, Traffic
from opentalos.model.errors import ConfigError
from opentalos.model.limits import TracingSettings

STOP_S: Final = 0.5  # to send the last spans at shutdown
_SERVER_ERRORS: Final = 500  # and the statuses above it
_TYPE: Final = b"type="  # the method of a call, in the query
_NAME_CHARS_MAX: Final = 100

_log = logging.getLogger(__name__)


class RequestSpans:
    """Continues the traces of clients with one span per answered request.

    Requests without the header ``traceparent`` are not traced, and a client decides whether its
    trace is sampled. Spans wait in a queue of 2,048; what finds no room, or no collector, is lost:
    traces are no promise.
    """

    def __init__(self, settings: TracingSettings, server: str) -> None:
        self._settings, self._server = settings, server
        self._threads = IoThreads("traces", threads=1, threads_max=1)
        self._collector: _Collector | None = None
        self._traffic: Traffic | None = None

    async def start(self, traffic: Traffic) -> None:
        """Trace from here on, if a collector is configured.

        Raises: ConfigError: OpenTelemetry is not installed.
        """
        if self._settings.otlp:
            self._collector = await self._threads.run(_Collector, self._settings.otlp, self._server)
            self._traffic, traffic.traced = traffic, self._collector.add

    async def stop(self) -> None:
        """Send what waits, for at most ``STOP_S``."""
        if self._collector is None or self._traffic is None:
            return
        self._traffic.traced = None
        try:
            async with asyncio.timeout(STOP_S):
                await self._threads.run(self._collector.flush)
        except TimeoutError:
            _log.warning("the collector of traces does not answer; the last spans are lost")
        await self._threads.close(deadline_s=0.1)


class _Collector:
    """OpenTelemetry, imported when the server starts with a collector: 0.3 s.

    Raises: ConfigError: it is not installed.
    """

    def __init__(self, url: str, server: str) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.context import Context
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation import tracecontext
        except ImportError as error:
            text = f"[tracing] otlp needs pip install 'opentalos[otel]': {error}"
            raise ConfigError(text) from error
        named = {"service.name": "opentalos", "service.instance.id": server}
        self._provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("opentalos")
        self._trace, self._context = trace, Context
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def add(self, exchange: Exchange, status: int) -> None:
        """The span of a request that is answered now; none if its header is not valid."""
        sent = exchange.headers[TRACEPARENT].decode("latin-1")
        parent = self._propagator.extract({TRACEPARENT.decode(): sent}, self._context())
        if not parent:
            return
        method, end_ns = exchange.method.decode("latin-1"), time.time_ns()
        took_ns = int((time.perf_counter() - exchange.started_s) * 1e9)
        span = self._tracer.start_span(
            _call_name(exchange.query) or method,
            context=parent,
            kind=self._trace.SpanKind.SERVER,
            start_time=end_ns - took_ns,
            attributes={
                "http.request.method": method,
                "url.path": exchange.path[:PATH_CHARS_MAX].decode("latin-1"),
                "http.response.status_code": status,
                "opentalos.request_id": exchange.request_id,
            },
        )
        if exchange.failure:
            span.set_attribute("error.type", exchange.failure)
        if status >= _SERVER_ERRORS:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(end_ns)

    def flush(self) -> None:
        """Send what waits."""
        self._provider.force_flush()


def _call_name(query: bytes) -> str:
    """The method of a Thrift call; empty for others."""
    for part in query.split(b"&"):
        if part.startswith(_TYPE):
            return part[len(_TYPE) :][:_NAME_CHARS_MAX].decode("latin-1")
    return ""
