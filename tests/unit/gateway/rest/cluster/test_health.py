"""REST of health: alarms that are there, for those who may read metrics."""

from tests.unit.gateway.rest.support import Rest, rest

from opentalos.model.limits import LogLimits


async def test_a_server_without_trouble_is_ok(call: Rest) -> None:
    found = (await call("GET", "health")).document
    assert found == {
        "status": "ok",
        "alarms": [],
        "servers": [{"server": "s1", "answers": True}],
    }
    assert (await call("GET", "health", by="alice")).status == 403


async def test_a_full_storage_is_an_alarm_with_its_numbers() -> None:
    async with rest(log=LogLimits(space_reserve_bytes=1 << 62)) as call:
        await call("POST", "topics", {"name": "t", "partitions": 1}, by="alice")
        sent = {"messages": [{"text": "x"}]}
        await call("POST", "topics/alice%2Ft/messages", sent, by="alice")
        found = (await call("GET", "health")).document
    assert found["status"] == "critical"
    (alarm,) = found["alarms"]
    assert (alarm["server"], alarm["name"]) == ("s1", "StorageFull")
    assert "puts are rejected" in alarm["text"]
