"""What a retry makes again, and what must never be the same."""

from dataclasses import replace

import pytest

from opentalos.model.errors import BadRequest
from opentalos.model.message import PRODUCER_ID_MAX
from opentalos.pipelines.datasource.sink.identity import (
    RUNS_REMEMBERED,
    TASKS_MAX,
    Identity,
    Runs,
    TaskFacts,
    forgetful_identity,
    identity_of,
)

STREAM = TaskFacts(task=1, attempt=0, query_id="query", run_id="run", batch_id=7)
JOB = TaskFacts(task=1, attempt=0)
TOPIC = "root#demo#0a"


def stream(facts: TaskFacts, runs: Runs | None = None, write_id: str = "") -> Identity:
    return identity_of(facts, streaming=True, write_id=write_id, token="t", runs=runs or Runs())


def job(facts: TaskFacts, write_id: str = "", token: str = "t") -> Identity:
    return identity_of(facts, streaming=False, write_id=write_id, token=token, runs=Runs())


def stamp(identity: Identity, resource: str = TOPIC) -> tuple[int, int]:
    return identity.producer_id(resource), identity.epoch


def test_a_batch_tried_again_has_the_same_stamps() -> None:
    again = replace(STREAM, attempt=3, run_id="later", speculation=True)
    assert stamp(stream(STREAM)) == stamp(stream(again))


def test_a_later_batch_is_the_same_producer_in_a_newer_epoch() -> None:
    first, later = stream(STREAM), stream(replace(STREAM, batch_id=8))
    assert first.producer_id(TOPIC) == later.producer_id(TOPIC)
    assert (first.epoch, later.epoch) == (8, 9)


@pytest.mark.parametrize("other", [replace(STREAM, task=2), replace(STREAM, query_id="else")])
def test_other_tasks_and_queries_are_other_producers(other: TaskFacts) -> None:
    assert stream(STREAM).producer_id(TOPIC) != stream(other).producer_id(TOPIC)


def test_a_recreated_topic_has_other_producers() -> None:
    assert stream(STREAM).producer_id(TOPIC) != stream(STREAM).producer_id("root#demo#0b")


def test_parts_of_a_name_are_not_mixed_up() -> None:
    assert stream(replace(STREAM, query_id="a"), write_id="bc").producer_id(TOPIC) != stream(
        replace(STREAM, query_id="ab"), write_id="c"
    ).producer_id(TOPIC)


def test_jobs_are_distinguished_by_token_or_by_write_id() -> None:
    assert stamp(job(JOB, token="a")) != stamp(job(JOB, token="b"))
    assert stamp(job(JOB, "w", "a")) == stamp(job(JOB, "w", "b")) != stamp(job(JOB, "v", "a"))


def test_a_write_id_inside_a_stream_counts_with_its_batch() -> None:
    assert stamp(job(STREAM, "w", "a")) == stamp(job(STREAM, "w", "b"))
    assert job(STREAM, "w").epoch == 8
    assert stamp(job(STREAM, token="a")) != stamp(job(STREAM, token="b"))


def test_ids_are_those_that_clients_may_choose() -> None:
    ids = {stream(replace(STREAM, task=task)).producer_id(TOPIC) for task in range(TASKS_MAX)}
    assert len(ids) == TASKS_MAX
    assert all(0 < item <= PRODUCER_ID_MAX for item in ids)


def test_only_the_first_batch_of_a_run_may_have_been_tried_by_an_earlier_one() -> None:
    runs = Runs()
    assert stream(STREAM, runs).repeated
    assert stream(STREAM, runs).repeated  # another task of that batch
    assert not stream(replace(STREAM, batch_id=8), runs).repeated
    assert stream(replace(STREAM, batch_id=8, run_id="later"), runs).repeated
    assert stream(replace(STREAM, batch_id=8, attempt=1), runs).repeated


def test_a_new_stream_does_not_say_that_it_repeats() -> None:
    assert not stream(replace(STREAM, batch_id=0)).repeated


def test_runs_that_ended_long_ago_are_forgotten() -> None:
    runs = Runs()
    assert stream(replace(STREAM, batch_id=7), runs).repeated
    for number in range(RUNS_REMEMBERED):
        stream(replace(STREAM, run_id=str(number)), runs)
    assert stream(replace(STREAM, batch_id=8), runs).repeated


def test_a_retry_says_so_and_compares_what_is_stored() -> None:
    assert not job(JOB).repeated
    assert not job(JOB).compares_all
    again = job(replace(JOB, attempt=1))
    assert again.repeated
    assert again.compares_all
    assert job(replace(JOB, speculation=True)).compares_all


def test_at_least_once_recognises_nothing() -> None:
    assert stamp(forgetful_identity(JOB, "a")) != stamp(forgetful_identity(JOB, "b"))


@pytest.mark.parametrize(
    "facts",
    [
        replace(STREAM, task=TASKS_MAX),
        replace(STREAM, batch_id=-1),
        replace(STREAM, query_id=""),
        replace(STREAM, batch_id=(1 << 31) - 1),
    ],
)
def test_ambiguous_tasks_are_refused(facts: TaskFacts) -> None:
    with pytest.raises(BadRequest, match=r"at most 500 tasks then|no valid producer epoch"):
        stream(facts)


def test_only_what_another_run_may_repeat_has_a_limit_of_tasks() -> None:
    late = replace(JOB, task=100_000)
    assert job(late).producer_id(TOPIC) != job(JOB).producer_id(TOPIC)
    with pytest.raises(BadRequest, match="at most 500 tasks then"):
        job(late, "named")
