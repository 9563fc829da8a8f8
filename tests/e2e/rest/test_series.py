"""Series of a real server with traffic: they add up to what clients did."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.rest.client import authorization, rest
from tests.server_process import Key, ServerProcess
from tests.waiting import eventually

CONFIG = "[measuring]\nstep_s = 1.0\n"


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path, CONFIG).start()
    yield server
    server.kill()


def series(server: ServerProcess, query: str, headers: Any = None) -> dict[str, Any]:
    replied = rest(server, "GET", f"series?{query}", headers=headers)
    assert replied.status == 200, replied
    found: dict[str, Any] = replied.document
    return found


def totals(found: dict[str, Any]) -> dict[str, float]:
    return {"/".join(line["labels"].values()): line["total"] for line in found["series"]}


def wait_for(look: Callable[[], Any], wanted: Any) -> None:
    eventually(f"the series show {wanted}", lambda: look() == wanted, state=look)


def put(server: ServerProcess, topic: str, partition: int, count: int) -> None:
    sent = {"messages": [{"text": f"message {number}"} for number in range(count)]}
    path = f"topics/{topic}/partitions/{partition}/messages"
    assert rest(server, "POST", path, sent).status == 200


def user(server: ServerProcess, name: str) -> dict[str, str]:
    """Headers of a user who is no administrator."""
    assert rest(server, "POST", "principals", {"id": name}).status == 201
    key = rest(server, "POST", f"principals/{name}/keys").document
    return authorization(Key(key["key_id"], key["secret"]))


def test_series_add_up_to_what_was_sent_and_read(measured: ServerProcess) -> None:
    for name in ("busy", "idle"):
        rest(measured, "POST", "topics", {"name": name, "partitions": 3})
    for partition, count in enumerate((5, 2, 0)):
        if count:
            put(measured, "busy", partition, count)
    put(measured, "idle", 0, 1)
    joined = rest(measured, "POST", "topics/busy/groups/g/workers").document
    worker = f"topics/busy/groups/g/workers/{joined['worker']}"
    read: list[Any] = []

    def all_read() -> bool:
        path = f"{worker}/messages?encoding=text&wait_s=1"
        found = rest(measured, "GET", path).document["messages"]
        offsets = {str(each["partition"]): each["offset"] for each in found}
        assert rest(measured, "POST", f"{worker}/commits", {"offsets": offsets}).status == 200
        read.extend(found)
        return len(read) >= 7

    eventually("the worker reads every message", all_read)
    put(measured, "busy", 1, 4)
    wait_for(lambda: totals(series(measured, "metric=messages_in")), {"": 12})
    topics = series(measured, "metric=messages_in&by=topic")
    assert totals(topics) == {"root/busy": 11, "root/idle": 1}
    assert topics["step_s"] == 12  # for the hour that is asked by default
    partitions = series(measured, "metric=messages_in&topic=busy&by=partition&step_s=1")
    assert totals(partitions) == {"0": 5, "1": 6}
    wait_for(lambda: totals(series(measured, "metric=messages_out&topic=busy")), {"": 7})
    heat = "metric=lag&topic=busy&group=g&by=partition&step_s=1"
    wait_for(
        lambda: {
            line["labels"]["partition"]: line["values"][-1]
            for line in series(measured, heat)["series"]
        }.get("1"),
        4,
    )
    assert series(measured, "metric=put_p99")["unit"] == "ms"
    assert rest(measured, "GET", "topics/nothing").status == 404
    wait_for(lambda: totals(series(measured, "metric=errors&by=error")), {"TopicNotExist": 1})


def test_a_tenant_sees_nothing_of_others(measured: ServerProcess) -> None:
    alice = user(measured, "alice")
    rest(measured, "POST", "topics", {"name": "secret", "partitions": 1})
    rest(measured, "POST", "topics", {"name": "own", "partitions": 1}, alice)
    put(measured, "secret", 0, 50)
    sent = {"messages": [{"text": "x"}]}
    assert rest(measured, "POST", "topics/own/messages", sent, alice).status == 200
    wait_for(lambda: totals(series(measured, "metric=messages_in")), {"": 51})
    assert totals(series(measured, "metric=messages_in", alice)) == {"": 1}
    assert totals(series(measured, "metric=messages_in&by=topic&limit=1", alice)) == {
        "alice/own": 1
    }
    for name in ("root%2Fsecret", "root%2Fnothing"):
        path = f"series?metric=messages_in&topic={name}"
        assert rest(measured, "GET", path, headers=alice).status == 404
    for query in ("metric=errors", "metric=put_p99", "by=server"):
        assert rest(measured, "GET", f"series?{query}", headers=alice).status == 403


def test_a_restart_loses_series_and_says_so(measured: ServerProcess) -> None:
    rest(measured, "POST", "topics", {"name": "t", "partitions": 1})
    put(measured, "t", 0, 3)
    wait_for(lambda: totals(series(measured, "metric=messages_in")), {"": 3})
    measured.stop()
    measured.start()
    put(measured, "t", 0, 2)
    wait_for(lambda: totals(series(measured, "metric=messages_in")), {"": 2})
    found = series(measured, "metric=messages_in&step_s=1")
    assert found["series"][0]["values"][0] is None
    assert "measured since" in found["partial"][0]["reason"]


def test_an_olap_store_that_is_away_leaves_what_memory_has(tmp_path: Path) -> None:
    # Nothing listens at the discard port.
    server = ServerProcess(tmp_path, CONFIG + 'olap = "http://127.0.0.1:9"\n').start()
    try:
        rest(server, "POST", "topics", {"name": "t", "partitions": 1})
        put(server, "t", 0, 3)
        wait_for(lambda: totals(series(server, "metric=messages_in")), {"": 3})
        now_s = int(time.time())
        month = f"from_s={now_s - 30 * 86_400}&to_s={now_s}"
        found = series(server, f"metric=messages_in&{month}")
        assert (totals(found), found["source"]) == ({"": 3}, "memory")
        assert any("did not answer" in note for note in found["notes"])
    finally:
        server.stop()
