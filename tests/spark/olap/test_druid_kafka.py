"""Druid's own Kafka supervisor reads measurements of ``__metrics`` from the port for Kafka."""

import json
from typing import Any

import pytest
from tests.server_process import ROOT_KEY
from tests.spark.conftest import TalosServer
from tests.waiting import eventually

from opentalos.backends.druid import DruidBackend
from opentalos.model.errors import BadRequest
from opentalos.model.names import METRICS_TOPIC
from opentalos.pipelines.olap.druid_http import DruidHttp
from opentalos.sdk import Client, SimpleProducer
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

pytestmark = pytest.mark.backend

MINUTE_MS = 60_000
FIRST_MS = 1_700_000_040_000  # a whole minute
TOPICS = ("orders", "clicks")
STEPS = 12  # of 10 s: two minutes
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def events() -> list[bytes]:
    """Two minutes of puts to two topics."""
    return [
        encode_measurement(
            Measurement(
                at_ms=FIRST_MS + step * 10_000,
                step_ms=10_000,
                service="probe",
                topic=topic,
                sums={"put_requests": float(1 + number), "put_bytes": 100.0 * step},
            )
        )
        for step in range(STEPS)
        for number, topic in enumerate(TOPICS)
    ]


def supervisor(server: TalosServer, datasource: str) -> dict[str, Any]:
    """Rolls events up by minute while it reads them."""
    login = f'{MODULE} required username="{ROOT_KEY.key_id}" password="{ROOT_KEY.secret}";'
    sums = ("put_requests", "put_bytes")
    schema = {
        "dataSource": datasource,
        "timestampSpec": {"column": "at_ms", "format": "millis"},
        "dimensionsSpec": {"dimensions": ["service", "topic"]},
        "metricsSpec": [
            {"type": "count", "name": "events"},
            *({"type": "doubleSum", "name": name, "fieldName": name} for name in sums),
        ],
        "granularitySpec": {
            "segmentGranularity": "HOUR", "queryGranularity": "MINUTE", "rollup": True,
        },
    }  # fmt: skip
    paths = [{"type": "path", "name": name, "expr": f"$.sums.{name}"} for name in sums]
    source = {
        "topic": METRICS_TOPIC,
        "inputFormat": {
            "type": "json", "flattenSpec": {"useFieldDiscovery": True, "fields": paths},
        },
        "consumerProperties": {
            "bootstrap.servers": json.loads((server.data / "server.json").read_text())["kafka"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login,
        },
        "useEarliestOffset": True,
        "startDelay": "PT1S",
        "period": "PT2S",
    }  # fmt: skip
    return {
        "type": "kafka",
        "spec": {"dataSchema": schema, "ioConfig": source, "tuningConfig": {"type": "kafka"}},
    }


def rolled_up(druid: DruidHttp, datasource: str) -> list[tuple[Any, ...]]:
    """What the broker has of the probe; nothing until the first task serves it.

    SQL learns of a datasource some time after the broker has it.
    """
    query = (
        "SELECT TIMESTAMP_TO_MILLIS(__time), topic, SUM(events), SUM(put_requests), SUM(put_bytes) "
        f"FROM \"{datasource}\" WHERE service = 'probe' GROUP BY 1, 2 ORDER BY 1, 2"
    )
    try:
        rows = druid.broker("/druid/v2/sql", {"query": query, "resultFormat": "array"})
    except BadRequest as error:
        if f"'{datasource}' not found" not in str(error):
            raise
        return []
    return [tuple(row) for row in rows]


def test_the_kafka_supervisor_rolls_measurements_up(
    druid: DruidBackend, server: TalosServer, run: str
) -> None:
    datasource = f"supervised_{run}"
    with Client(server.config) as client, SimpleProducer(client, METRICS_TOPIC) as producer:
        producer.put(events())
    expected = [
        (FIRST_MS + minute * MINUTE_MS, topic, 6, 6.0 * (1 + TOPICS.index(topic)), total)
        for minute, total in ((0, 1_500.0), (1, 5_100.0))
        for topic in sorted(TOPICS)
    ]
    http = DruidHttp(druid.url)
    http.coordinator("/druid/indexer/v1/supervisor", supervisor(server, datasource))
    try:
        eventually(
            "all measurements are rolled up",
            lambda: rolled_up(http, datasource) == expected,
            state=lambda: rolled_up(http, datasource),
        )
    finally:
        http.coordinator(f"/druid/indexer/v1/supervisor/{datasource}/terminate", {})
