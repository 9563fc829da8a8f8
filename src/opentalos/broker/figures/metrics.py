"""The metrics that series show: units, how intervals are combined, and what they can be split by.

``measure`` is the name in the tables of the pipeline ``monitoring`` (``wire/metrics/measures.py``),
so that both sources of a series mean the same.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What a value is, and so how several are combined."""

    SUM = "sum"  # within the step; add up
    GAUGE = "gauge"  # the largest within the step
    PERCENTILE = "percentile"  # of the calls within the step; the largest of several


class By(StrEnum):
    """What a metric is split by."""

    TOTAL = "total"
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    ERROR = "error"
    SERVER = "server"


class Metric(NamedTuple):
    """One of them. ``service``: about a whole server, so not for tenants."""

    name: str
    unit: str
    kind: Kind
    by: tuple[By, ...]
    measure: str
    service: bool = False
    percent: float = 0.0


_TRAFFIC: Final = (By.TOTAL, By.TOPIC, By.PARTITION, By.SERVER)
_LATENCIES: Final = {
    "put": "put_ms", "fetch": "get_ms", "table_read": "", "table_write": "",
    "rest_read": "", "rest_write": "",
}  # fmt: skip
PERCENTS: Final = {"p50": 50.0, "p99": 99.0, "p999": 99.9}


def _metrics() -> tuple[Metric, ...]:
    traffic = (
        Metric("messages_in", "messages", Kind.SUM, _TRAFFIC, "put_messages"),
        Metric("bytes_in", "bytes", Kind.SUM, _TRAFFIC, "put_bytes"),
        Metric("messages_out", "messages", Kind.SUM, _TRAFFIC, "get_messages"),
        Metric("bytes_out", "bytes", Kind.SUM, _TRAFFIC, "get_bytes"),
        Metric("fetches", "requests", Kind.SUM, _TRAFFIC, "get_requests"),
    )
    lag = Metric(
        "lag", "messages", Kind.GAUGE, (By.TOTAL, By.TOPIC, By.PARTITION, By.GROUP), "consumer_lag"
    )
    errors = Metric(
        "errors", "requests", Kind.SUM, (By.TOTAL, By.ERROR, By.SERVER), "errors", service=True
    )
    latencies = [
        Metric(
            f"{call}_{name}", "ms", Kind.PERCENTILE, (By.SERVER,), measure,
            service=True, percent=percent,
        )
        for call, measure in _LATENCIES.items()
        for name, percent in PERCENTS.items()
    ]  # fmt: skip
    return (*traffic, lag, errors, *latencies)


METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _metrics()}
