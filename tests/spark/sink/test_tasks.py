"""Attempts of tasks against a real server, without Spark: what a retry stores and what not."""

import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types
from tests.spark.kills.copying import read_all
from tests.waiting import eventually, limit_s

from opentalos.model.errors import NotSupported, ProducerFenced, RequestTooLarge
from opentalos.model.message import ProducerStamp
from opentalos.pipelines.datasource.sink import identity as sink_identity
from opentalos.pipelines.datasource.sink.block_writer import NotTheSameRows, Stored
from opentalos.pipelines.datasource.sink.columns import WriteColumns
from opentalos.pipelines.datasource.sink.identity import TaskFacts
from opentalos.pipelines.datasource.sink.options import write_options
from opentalos.pipelines.datasource.sink.plan import plan_write
from opentalos.pipelines.datasource.sink.task import WriteJob
from opentalos.sdk import Client, Message
from opentalos.sdk.aio import Client as AsyncClient
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.values import Compression
from opentalos.testing.embedded import EmbeddedServer

BLOCK = 10  # messages
ROWS = [f"row {number}" for number in range(35)]  # four blocks
PRODUCERS_MAX = 1_000  # that the log keeps of a partition
FIRST = TaskFacts(task=0, attempt=0, query_id="query", run_id="run 1", batch_id=4)
RETRY = replace(FIRST, attempt=1)
RESTARTED = replace(FIRST, run_id="run 2")


class Sink:
    """Writes to a topic of its own, each try planned as Spark's driver does."""

    def __init__(self, server: EmbeddedServer, partitions: int = 1) -> None:
        self.config = server.client_config(deadline_s=limit_s())
        self.topic = f"t{secrets.token_hex(4)}"
        self.ref = server.create_topic(self.topic, partitions)
        self.partitions = partitions

    def plan(self, names: Sequence[str] = ("value",), **given: str) -> WriteJob:
        key = f"{self.config.key_id}:{self.config.secret}"
        options = write_options(
            {"url": self.config.endpoints[0], "key": key, "topic": self.topic}
            | {"blockMessages": str(BLOCK)}
            | given
        )
        fields = [types.StructField(name, types.StringType()) for name in names]
        with Client(self.config) as client:
            plan = client.run(lambda item: plan_write(item, options))
        return WriteJob(
            options=options,
            columns=WriteColumns(types.StructType(fields), topic_option=True),
            plan=plan,
            streaming="writeId" not in given,
            token=secrets.token_hex(8),
        )

    def try_(self, facts: TaskFacts, rows: Sequence[str] = ROWS, **given: str) -> list[Stored]:
        """One attempt of a batch that was planned again."""
        return list(self.plan(**given).store(batches(rows), facts))

    def held(self) -> list[str]:
        """The rows in the log, partition after partition."""
        found = [read_all(self.config, self.topic, number) for number in range(self.partitions)]
        return [data.decode() for partition in found for data in partition]

    def others(self, producers: int) -> None:
        """So many other producers put one message each into the first partition."""
        block = encode_records([Message(b"other")], Compression.NONE)

        async def put(client: AsyncClient) -> None:
            for number in range(producers):
                stamp = ProducerStamp(secrets.randbits(61) + number, 0, 0)
                await client.put(self.ref, 0, block, stamp=stamp)

        with Client(self.config) as client:
            client.run(put)


def batches(rows: Sequence[str], size: int = 7) -> Iterator[Any]:
    schema = pa.schema([("value", pa.string())])
    for at in range(0, len(rows), size):
        yield pa.RecordBatch.from_pydict({"value": rows[at : at + size]}, schema)


def cut_off(sink: Sink, stored: int) -> Iterator[Any]:
    """The rows of a task whose input fails once so many of them are stored."""
    yield from batches(ROWS[: stored + 1], 1)
    eventually(f"{stored} rows are stored", lambda: len(sink.held()) >= stored)
    raise ConnectionError("the input is gone")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as one:
        yield one


@pytest.fixture
def sink(server: EmbeddedServer) -> Sink:
    sink_identity.RUNS.forget()
    return Sink(server)


@pytest.mark.parametrize("again", [FIRST, RETRY, RESTARTED, replace(RETRY, speculation=True)])
def test_a_batch_that_is_written_again_is_stored_once(sink: Sink, again: TaskFacts) -> None:
    (stored,) = sink.try_(FIRST)
    assert (stored.topic, stored.partition, stored.rows) == (sink.topic, 0, len(ROWS))
    assert sink.try_(again)[0].rows == len(ROWS)
    assert sink.held() == ROWS


def test_a_retry_resumes_where_the_first_attempt_ended(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.pipelines.datasource.sink.task.WINDOW_ROWS_MAX", BLOCK)
    with pytest.raises(ConnectionError):
        sink.plan().store(cut_off(sink, 20), FIRST)
    assert sink.held() == ROWS[:20]
    sink.try_(RETRY)
    assert sink.held() == ROWS


def test_a_first_attempt_of_a_stage_that_runs_again_is_compared(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.pipelines.datasource.sink.task.WINDOW_ROWS_MAX", BLOCK)
    job = sink.plan()
    with pytest.raises(ConnectionError):
        job.store(cut_off(sink, 20), FIRST)
    with pytest.raises(NotTheSameRows):
        job.store(batches(ROWS[::-1]), FIRST)
    assert sink.held() == ROWS[:20]
    job.store(batches(ROWS), FIRST)
    assert sink.held() == ROWS


def test_an_attempt_that_another_one_overtook_is_compared(sink: Sink) -> None:
    job = sink.plan()

    def overtaken() -> Iterator[Any]:
        yield from batches(ROWS[:5])
        job.store(batches(ROWS[::-1]), FIRST)
        yield from batches(ROWS[5:])

    with pytest.raises(NotTheSameRows):
        job.store(overtaken(), FIRST)
    assert sink.held() == ROWS[::-1]


def test_hundreds_of_blocks_are_recognised_though_the_log_keeps_five(sink: Sink) -> None:
    rows = [f"row {number}" for number in range(200 * BLOCK)]
    sink.try_(FIRST, rows)
    sink.try_(RETRY, rows)
    sink.try_(RESTARTED, rows)
    assert sink.held() == rows


def test_other_sizes_of_record_batches_make_the_same_blocks(sink: Sink) -> None:
    sink.plan().store(batches(ROWS, 3), FIRST)
    sink.plan().store(batches(ROWS, 34), RETRY)
    assert sink.held() == ROWS


def test_another_compression_is_recognised_as_the_same_rows(sink: Sink) -> None:
    sink.try_(FIRST)
    sink.try_(RESTARTED, compression="zstd")
    assert sink.held() == ROWS


@pytest.mark.parametrize("again", [RETRY, RESTARTED, FIRST])
@pytest.mark.parametrize(
    "rows",
    [
        ROWS[::-1],
        [*ROWS[:5], "another row", *ROWS[6:]],
        ROWS[1:],
        ["one more", *ROWS],
    ],
)
def test_other_rows_in_a_second_try_are_refused_and_not_mixed(
    sink: Sink, again: TaskFacts, rows: list[str]
) -> None:
    sink.try_(FIRST)
    with pytest.raises(NotTheSameRows):
        sink.try_(again, rows)
    assert sink.held() == ROWS


def test_fewer_rows_than_an_earlier_try_stored_are_noticed_after_the_last_blocks(
    sink: Sink,
) -> None:
    rows = [f"row {number}" for number in range(20 * BLOCK)]
    sink.try_(FIRST, rows)
    with pytest.raises(NotTheSameRows, match="stored more rows"):
        sink.try_(RETRY, rows[: 5 * BLOCK])


def test_a_task_of_an_older_batch_that_wakes_up_is_fenced(sink: Sink) -> None:
    late = sink.plan()
    sink.try_(replace(FIRST, batch_id=5), ["newer"])
    with pytest.raises(ProducerFenced, match="a newer batch of this query"):
        late.store(batches(ROWS), FIRST)
    assert sink.held() == ["newer"]


def test_two_attempts_at_the_same_time_store_the_rows_once(sink: Sink) -> None:
    rows = [f"row {number}" for number in range(100 * BLOCK)]
    jobs = [(sink.plan(), item) for item in (FIRST, RETRY, RESTARTED)]
    threads = [
        threading.Thread(target=job.store, args=(batches(rows), facts)) for job, facts in jobs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sink.held() == rows


def test_tasks_and_batches_are_distinguished(sink: Sink) -> None:
    sink.try_(FIRST, ["a"])
    sink.try_(replace(FIRST, task=1), ["b"])
    sink.try_(replace(FIRST, batch_id=5), ["c"])
    assert sink.held() == ["a", "b", "c"]


def test_rows_without_a_key_are_recognised_in_all_partitions(server: EmbeddedServer) -> None:
    sink = Sink(server, partitions=4)
    sink.try_(FIRST)
    sink.try_(RETRY)
    assert sorted(sink.held()) == sorted(ROWS)


def test_a_write_id_may_be_repeated_and_not_used_for_other_rows(sink: Sink) -> None:
    once = TaskFacts(task=0, attempt=0)
    sink.try_(once, writeId="load-7")
    sink.try_(once, writeId="load-7")
    with pytest.raises(NotTheSameRows):
        sink.try_(once, ROWS[::-1], writeId="load-7")
    sink.try_(once, ["next"], writeId="load-8")
    assert sink.held() == [*ROWS, "next"]


def test_at_least_once_stores_a_retry_again(sink: Sink) -> None:
    sink.try_(FIRST, delivery="at-least-once")
    sink.try_(RETRY, delivery="at-least-once")
    assert sink.held() == ROWS * 2


def test_a_server_that_does_not_recognise_repeats_is_at_least_once_and_says_so(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("opentalos.pipelines.datasource.sink.plan._OUR_SERVERS", "no server")
    sink.try_(FIRST)
    assert "does not recognize repeated puts: retries may store rows twice" in caplog.text
    sink.try_(RETRY)
    assert sink.held() == ROWS * 2
    with pytest.raises(NotSupported, match="exactly-once is not possible"):
        sink.plan(delivery="exactly-once")


def test_a_forgotten_producer_is_refused_where_it_may_have_stored_before(sink: Sink) -> None:
    job = sink.plan()
    job.store(batches(["a"]), FIRST)
    sink.others(PRODUCERS_MAX)
    with pytest.raises(NotTheSameRows, match="or the log has forgotten it"):
        job.store(batches(["a"]), RETRY)
    with pytest.raises(NotTheSameRows, match="or the log has forgotten it"):
        sink.try_(RESTARTED, ["a"])
    sink.try_(replace(FIRST, batch_id=5), ["b"])  # is known to be new
    assert [item for item in sink.held() if item != "other"] == ["a", "b"]


def test_a_retry_of_what_was_never_sent_is_stored_though_the_log_has_forgotten_others(
    sink: Sink,
) -> None:
    sink.others(PRODUCERS_MAX + 1)
    job = sink.plan()
    sink.others(1)
    for _ in range(2):
        job.store(batches(["a"]), replace(RETRY, batch_id=0))
    assert [item for item in sink.held() if item != "other"] == ["a"]


def test_a_message_that_is_too_large_is_named(sink: Sink) -> None:
    with pytest.raises(RequestTooLarge) as caught:
        sink.try_(FIRST, ["x" * (21 << 20)], compression="none")
    assert f"row 0 of this task for {sink.topic}[0]" in caught.value.__notes__[-1]
    assert sink.held() == []
