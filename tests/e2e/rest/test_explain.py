"""A real server explains why groups do not move, by causes that are really there."""

from typing import Any

from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.waiting import eventually

from opentalos.group.explanation import IDLE_S


def explained(server: ServerProcess, group: str) -> dict[str, Any]:
    replied = rest(server, "GET", f"topics/t/groups/{group}/explain")
    assert replied.status == 200, replied
    found: dict[str, Any] = replied.document
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in found["reasons"]]


def join(server: ServerProcess, group: str) -> str:
    joined = rest(server, "POST", f"topics/t/groups/{group}/workers").document
    return f"topics/t/groups/{group}/workers/{joined['worker']}"


def read(server: ServerProcess, worker: str) -> int:
    path = f"{worker}/messages?encoding=text&wait_s=1"
    return len(rest(server, "GET", path).document["messages"])


def commit(server: ServerProcess, worker: str, offset: int) -> None:
    done = rest(server, "POST", f"{worker}/commits", {"offsets": {"0": offset}})
    assert done.document["refused"] == []


def throttles_a_read(server: ServerProcess, group: str, worker: str) -> bool:
    read(server, worker)
    return "throttled" in codes(explained(server, group))


def no_longer_moving(server: ServerProcess, group: str, worker: str) -> dict[str, Any] | None:
    """What is said of the group of a worker that renews its lease and commits nothing."""
    rest(server, "POST", f"{worker}/renew")
    found = explained(server, group)
    return None if codes(found) == ["moving"] else found


def test_causes_are_found_while_they_last(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    sent = {"messages": [{"text": str(number)} for number in range(10)]}
    assert rest(server, "POST", "topics/t/messages", sent).status == 200
    left = join(server, "left")
    commit(server, left, 3)
    rest(server, "DELETE", left)
    found = explained(server, "left")
    assert (found["state"], codes(found)) == ("stuck", ["no_workers"])
    assert found["reasons"][0]["figures"] == {"lag": 6}
    restless = [join(server, "restless")]
    for _ in range(4):
        rest(server, "DELETE", restless[-1])
        restless.append(join(server, "restless"))
    assert codes(explained(server, "restless")) == ["rebalancing", "moving"]
    throttled = join(server, "throttled")
    assert rest(server, "PUT", "topics/t/quota", {"get_requests_per_s": 1}).status == 204
    what = "a throttled group is explained"
    eventually(what, lambda: throttles_a_read(server, "throttled", throttled))
    assert rest(server, "DELETE", "topics/t/quota").status == 204
    done = join(server, "done")
    commit(server, done, 9)
    assert explained(server, "done")["state"] == "caught_up"
    stuck = join(server, "stuck")
    assert read(server, stuck) == 10
    moved = eventually(
        "a worker that commits nothing is no longer moving",
        lambda: no_longer_moving(server, "stuck", stuck),
    )
    assert moved is not None
    found = moved
    assert (found["state"], codes(found)) == ("stuck", ["not_committing"])
    assert found["reasons"][0]["figures"]["idle_s"] >= IDLE_S
    commit(server, stuck, 0)
    assert explained(server, "stuck")["state"] == "moving"
    offsets = {"to": {"offsets": {"0": 5}}, "dry_run": True}
    planned = rest(server, "POST", "topics/t/groups/stuck/reset", offsets).document
    assert planned == {"partitions": [{"partition": 0, "before": 0, "after": 5}]}
    assert explained(server, "stuck")["lag"] == 9  # a dry run changes nothing
