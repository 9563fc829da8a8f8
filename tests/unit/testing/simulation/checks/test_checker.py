"""The checker: for every anomaly a history that has it, and one that only looks like it."""

import io
from pathlib import Path

import pytest
from tests.unit.matrix import matrix
from tests.unit.testing.simulation.checks import (
    assigned_stories,
    cluster_stories,
    egress_stories,
    kept_stories,
    lease_stories,
    lookup_stories,
    membership_stories,
    metering_stories,
    record_stories,
    sequence_stories,
    storage_stories,
    stories,
    table_stories,
)
from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

from opentalos.testing.simulation.checks.checker import ANOMALIES, check
from opentalos.testing.simulation.history import History, Recorder, dump

CASES = (
    stories.CASES
    | assigned_stories.CASES
    | cluster_stories.CASES
    | lease_stories.CASES
    | lookup_stories.CASES
    | membership_stories.CASES
    | metering_stories.CASES
    | record_stories.CASES
    | egress_stories.CASES
    | kept_stories.CASES
    | sequence_stories.CASES
    | storage_stories.CASES
    | table_stories.CASES
)


def history_of(story: Story) -> History:
    tale = Tale()
    story(tale)
    return tale.recorder.history


def names(history: History) -> set[str]:
    return {anomaly.name for anomaly in check(history)}


HAVING = [(name, story) for name, (having, _) in CASES.items() for story in having]
FREE = [(name, story) for name, (_, free) in CASES.items() for story in free]
FREE.append(("stale-commit", cluster_stories.commit_after_an_unlock_that_came_late))
FREE += [
    ("stale-commit", record_stories.in_turn_with_joins),
    ("stale-commit", record_stories.perhaps_joined_again),
]
HAVING.append(("stale-commit", record_stories.in_turn_without_a_join))
HAVING += assigned_stories.HAVING
FREE += assigned_stories.FREE


@matrix(("name", "story"), HAVING)
def test_an_anomaly_is_found_under_its_name(name: str, story: Story) -> None:
    assert name in names(history_of(story))


@matrix(("name", "story"), FREE)
def test_a_legal_history_near_an_anomaly_passes(name: str, story: Story) -> None:
    assert check(history_of(story)) == [], name


def test_every_anomaly_has_both_kinds_of_histories() -> None:
    assert set(CASES) == set(ANOMALIES)
    assert all(having and free for having, free in CASES.values())


@matrix("story", [having[0] for having, _ in CASES.values()])
def test_a_history_is_judged_alike_after_a_round_through_json(story: Story, tmp_path: Path) -> None:
    history = history_of(story)
    path = tmp_path / "history.jsonl"
    with path.open("w") as sink:
        dump(history, sink)
    assert names(History.load([path])) == names(history)


def test_a_killed_process_leaves_open_operations_and_a_torn_line(tmp_path: Path) -> None:
    now_s = iter(range(100))
    producer, consumer = tmp_path / "producer.jsonl", tmp_path / "consumer.jsonl"
    with producer.open("w") as sink:
        recorder = Recorder(lambda: float(next(now_s)), sink)
        recorder.ok(recorder.invoke("p", "put", topic="t", partition=0, ids=["a"]))
        recorder.invoke("p", "put", topic="t", partition=0, ids=["b"])
        sink.write('{"event":"invo')
    with consumer.open("w") as sink:
        recorder = Recorder(lambda: float(next(now_s)), sink)
        read = recorder.invoke("c", "read", topic="t", partition=0, offset=-1, final=True)
        recorder.ok(read, blocks=[[0, ["a", "b"]]], start=0, next=2)
    history = History.load([producer, consumer])
    assert [operation.action for operation in history.operations] == ["put", "put", "read"]
    assert check(history) == []


def test_an_operation_ends_once() -> None:
    recorder = Recorder(lambda: 0.0, io.StringIO())
    put = recorder.invoke("p", "put", topic="t", partition=0, ids=["a"])
    recorder.ok(put)
    with pytest.raises(ValueError, match="has already ended"):
        recorder.fail(put, "late")
