"""Reads what lies in ``__metrics``, as an administrator's program does."""

from collections.abc import Callable
from contextlib import suppress

from tests.server_process import ROOT_KEY
from tests.waiting import eventually

from opentalos.model.errors import TopicNotExist
from opentalos.model.names import METRICS_TOPIC
from opentalos.sdk import ClientConfig, SimpleConsumer
from opentalos.wire.metrics.measurement import Measurement, decode_measurement


def administrator(url: str) -> ClientConfig:
    return ClientConfig(endpoints=(url,), key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)


def events_of(config: ClientConfig, topic: str = METRICS_TOPIC) -> list[bytes]:
    """Every message of the topic, partition by partition."""
    found: list[bytes] = []
    with SimpleConsumer(config, topic) as consumer:
        for partition, offsets in consumer.offsets().items():
            offset = offsets.start
            while offset < offsets.next:
                for record in consumer.fetch(partition, offset):
                    found.append(bytes(record.data))
                    offset = record.offset + 1
    return found


def rows_of(config: ClientConfig) -> list[Measurement]:
    """Every row, in order of time; a row that came twice would be here twice."""
    rows = [decode_measurement(event) for event in events_of(config)]
    return sorted(rows, key=lambda row: row.at_ms)


def wait_for_rows(
    config: ClientConfig, condition: Callable[[list[Measurement]], bool]
) -> list[Measurement]:
    """The rows, once they fulfil the condition."""
    rows: list[Measurement] = []

    def fulfilled() -> bool:
        with suppress(TopicNotExist):  # the first step is not over
            rows[:] = rows_of(config)
        return condition(rows)

    what = "the rows of __metrics fulfil the condition"
    eventually(what, fulfilled, state=lambda: f"{len(rows)} rows, at last {rows[-3:]}")
    return rows


def total(rows: list[Measurement], name: str, topic: str = "") -> float:
    """The sum of a measure over the rows of a topic, or of the whole server."""
    return sum(row.sums.get(name, 0.0) for row in rows if row.topic == topic)


def upserted(rows: list[Measurement]) -> list[Measurement]:
    """One row for each key: after a kill, what was on its way may be there again, unchanged."""
    by_key: dict[object, Measurement] = {}
    for row in rows:
        assert by_key.setdefault(row.key, row) == row
    return list(by_key.values())


def assert_each_key_once(rows: list[Measurement]) -> None:
    keys = [row.key for row in rows]
    assert len(keys) == len(set(keys))
