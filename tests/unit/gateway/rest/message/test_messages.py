"""REST of messages: put, idempotency keys, read by offset."""

import asyncio
import base64
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest, gateway_of
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.broker.messaging.keyed_puts import WINDOW_S
from opentalos.model.message import partition_of

PATH = "topics/t/partitions/0/messages"
RAW = {"Content-Type": "application/octet-stream"}
FIELDS = {
    "key": "k",
    "sequence_number": "7",
    "create_ms": 5,
    "type": 1,
    "schema_fingerprint": "f",
    "tag": "g",
}


async def read(call: Rest, query: str = "", path: str = PATH) -> Any:
    replied = await call("GET", f"{path}?{query}", by="alice")
    assert replied.status == 200, replied
    return replied.document


@pytest.fixture
async def topic(call: Rest) -> None:
    await call.world.topic(alice(call), partitions=2)


@pytest.mark.usefixtures("topic")
async def test_messages_come_back_as_they_were_sent(call: Rest) -> None:
    data = base64.b64encode(b"\x00\xff").decode()
    sent = [{"value": {"a": [1.5, "ü"]}}, {"text": "hé"}, {"base64": data, **FIELDS}]
    stored = await call("POST", PATH, {"messages": sent}, by="alice")
    assert stored.document["partition"] == 0
    assert stored.document["messages"] == 3
    found = await read(call)
    assert (found["next_offset"], found["lag"]) == (3, 0)
    decoded = [base64.b64decode(message["base64"]) for message in found["messages"]]
    assert decoded == ['{"a":[1.5,"ü"]}'.encode(), "hé".encode(), b"\x00\xff"]
    assert {name: found["messages"][2][name] for name in FIELDS} == FIELDS
    as_json = (await read(call, "encoding=json"))["messages"]
    assert as_json[0]["value"] == {"a": [1.5, "ü"]}
    assert as_json[2]["base64"] == data
    as_text = (await read(call, "encoding=text"))["messages"]
    assert [as_text[1]["text"], as_text[2]["base64"]] == ["hé", data]


@pytest.mark.usefixtures("topic")
async def test_a_value_keeps_every_digit_and_has_each_field_once(call: Rest) -> None:
    body = b'{"messages": [{"value": {"price": 12345678901234567890.123456789}}]}'
    json = {"Content-Type": "application/json"}
    assert (await call("POST", PATH, body=body, headers=json, by="alice")).status == 200
    (stored,) = (await read(call))["messages"]
    assert base64.b64decode(stored["base64"]) == b'{"price":12345678901234567890.123456789}'
    twice = body.replace(b'"price"', b'"price": 1, "price"')
    refused = await call("POST", PATH, body=twice, headers=json, by="alice")
    assert refused.status == 400
    assert 'the field "price" is given twice' in refused.document["detail"]


@pytest.mark.usefixtures("topic")
async def test_a_raw_body_is_one_message(call: Rest) -> None:
    for body in (b"\x00raw", b""):
        stored = await call("POST", PATH + "?key=k", body=body, headers=RAW, by="alice")
        assert (stored.status, stored.document["messages"]) == (200, 1)
    found = (await read(call))["messages"]
    assert [base64.b64decode(item["base64"]) for item in found] == [b"\x00raw", b""]
    assert found[0]["key"] == "k"


@pytest.mark.usefixtures("topic")
async def test_a_key_selects_the_partition_and_others_are_spread(call: Rest) -> None:
    async def put(*keys: str) -> Any:
        sent = [{"text": "x", "key": key} if key else {"text": "x"} for key in keys]
        return await call("POST", "topics/t/messages", {"messages": sent}, by="alice")

    turns = [(await put("")).document["partition"] for _ in range(4)]
    assert turns == [0, 1, 0, 1]
    low, high = "a", "zzzzzz"
    assert [partition_of(low, 2), partition_of(high, 2)] == [0, 1]
    assert (await put(high, "", high)).document["partition"] == 1
    refused = await put(low, high)
    assert (refused.status, refused.document["title"]) == (422, "SeveralPartitions")


@pytest.mark.parametrize(
    "document",
    [{}, {"messages": []}, {"messages": [{}]}, {"messages": [{"text": "a", "value": 1}]},
     {"messages": [{"text": 5}]}, {"messages": [{"base64": "a"}]},
     {"messages": [{"base64": "a b="}]},
     {"messages": [{"text": "a", "offset": 1}]}, {"messages": [{"text": "a", "key": ""}]},
     {"messages": [{"text": "a"}] * 1001}],
)  # fmt: skip
async def test_messages_that_are_none_are_refused(call: Rest, document: Any) -> None:
    await call.world.topic(alice(call))
    assert (await call("POST", PATH, document, by="alice")).status == 400
    assert (await read(call))["messages"] == []


@pytest.mark.usefixtures("topic")
async def test_without_permission_a_topic_appears_unknown(call: Rest) -> None:
    await call.user("bob")
    sent = {"messages": [{"text": "x"}]}
    for path in (PATH, "topics/t/messages", "topics/alice%2Ft/messages"):
        assert (await call("POST", path, sent, by="bob")).status == 404
    assert (await call("GET", "topics/alice%2Ft/partitions/0/messages", by="bob")).status == 404
    assert (await call("POST", "topics/t/partitions/2/messages", sent, by="alice")).status == 404
    assert (await call("GET", "topics/t/partitions/2/messages", by="alice")).status == 404


@pytest.mark.usefixtures("topic")
async def test_a_repeat_with_its_key_is_stored_once(call: Rest) -> None:
    async def put(text: str, key: str = "k-1", by: str = "alice") -> Any:
        sent = {"messages": [{"text": text}]}
        headers = {"Idempotency-Key": key}
        return await call("POST", "topics/alice%2Ft/messages", sent, by=by, headers=headers)

    first = await put("x")
    assert (await put("x")).document == first.document
    path = f"topics/t/partitions/{first.document['partition']}/messages"
    refused = await put("y")
    assert (refused.status, refused.document["title"]) == (422, "KeyReused")
    assert len((await read(call, path=path))["messages"]) == 1
    assert (await put("y", by="root")).status == 200  # another caller's key is another key
    assert (await put("x", key="\x01")).status == 400


async def test_repeats_at_the_same_time_have_one_answer(call: Rest) -> None:
    await call.world.topic(alice(call))
    sent = {"messages": [{"text": "x"}]}
    replies = await asyncio.gather(
        *(call("POST", PATH, sent, by="alice", headers={"Idempotency-Key": "k"}) for _ in range(5))
    )
    assert len({str(replied.document) for replied in replies}) == 1
    assert len((await read(call))["messages"]) == 1


async def test_a_repeat_after_the_window_or_a_restart_is_stored_once(call: Rest) -> None:
    await call.world.topic(alice(call))
    sent = {"messages": [{"text": "x"}, {"text": "y"}]}
    headers = {"Idempotency-Key": "k"}
    first = await call("POST", PATH, sent, by="alice", headers=headers)
    keyed = call.world.broker.plain_messages._keyed
    keyed._forget_old(asyncio.get_running_loop().time() + WINDOW_S)
    assert len(keyed) == 0
    again = await call("POST", PATH, sent, by="alice", headers=headers)
    assert again.document == first.document
    call.gateway = gateway_of(await call.world.restart())
    again = await call("POST", PATH, sent, by="alice", headers=headers)
    assert again.document["messages"] == 2
    assert len((await read(call))["messages"]) == 2


async def test_keys_of_one_caller_do_not_push_out_those_of_others(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.broker.messaging.keyed_puts.KEYS_OF_CALLER_MAX", 2)
    await call.world.topic(alice(call))
    keyed = call.world.broker.plain_messages._keyed
    for by, key in (("root", "r"), ("alice", "1"), ("alice", "2"), ("alice", "3")):
        path = "topics/alice%2Ft/partitions/0/messages"
        sent = {"messages": [{"text": key}]}
        await call("POST", path, sent, by=by, headers={"Idempotency-Key": key})
    assert sorted(name[2] for name in keyed._firsts) == ["2", "3", "r"]


@pytest.mark.usefixtures("topic")
async def test_reading_starts_from_offset_time_start_or_end(call: Rest) -> None:
    sent = {"messages": [{"text": str(number)} for number in range(5)]}
    await call("POST", PATH, sent, by="alice")

    async def texts(query: str) -> list[str]:
        found = await read(call, f"{query}&encoding=text")
        return [message["text"] for message in found["messages"]]

    assert await texts("offset=3") == ["3", "4"]
    assert await texts("offset=1&messages_max=2") == ["1", "2"]
    assert await texts("bytes_max=2") == ["0", "1"]
    assert await texts("at=start") == await texts("time_ms=0") == list("01234")
    assert await texts("at=end") == []
    found = await read(call, "offset=1&messages_max=2")
    assert (found["next_offset"], found["lag"]) == (3, 2)
    missing = await call("GET", f"{PATH}?offset=9", by="alice")
    assert (missing.status, missing.document["title"]) == (404, "OffsetOutOfRange")
    for query, status in (("offset=1&at=end", 422), ("offset=x", 400), ("wait_s=31", 400)):
        assert (await call("GET", f"{PATH}?{query}", by="alice")).status == status


@pytest.mark.usefixtures("topic")
async def test_a_long_poll_ends_with_the_first_message(call: Rest) -> None:
    waiting = asyncio.create_task(read(call, "at=end&wait_s=8&encoding=text"))
    await asyncio.sleep(0.7)  # longer than the log itself waits
    assert not waiting.done()
    await call("POST", PATH, {"messages": [{"text": "news"}]}, by="alice")
    found = await waiting
    assert [message["text"] for message in found["messages"]] == ["news"]


@pytest.mark.usefixtures("topic")
async def test_a_body_that_takes_long_to_decode_is_refused_before(call: Rest) -> None:
    many = b'{"messages": [{"value": [' + b"[]," * 100_000 + b"[]]}]}"
    large = b'{"messages": [{"text": "' + b"x" * (4 << 20) + b'"}]}'
    for body in (many, large):
        replied = await call("POST", PATH, body=body, by="alice")
        assert (replied.status, replied.document["title"]) == (413, "RequestTooLarge")


async def test_a_block_that_cannot_be_decoded_is_reported_with_its_offset(call: Rest) -> None:
    topic = await call.world.topic(alice(call))
    await call.world.put(alice(call), topic, 0, 3)  # bytes that are no messages
    replied = await call("GET", PATH, by="alice")
    assert (replied.status, replied.document["title"]) == (422, "MessageUnreadable")
    assert "offset 0" in replied.document["detail"]


@pytest.mark.usefixtures("topic")
async def test_a_large_request_and_its_messages_are_handled_in_pieces(call: Rest) -> None:
    value = {"numbers": list(range(50_000)), "text": "ü" * 50_000}
    sent: list[dict[str, Any]] = [
        {"value": value},
        {"text": "é\n" * 100_000},
        {"base64": "AAEC" * 50_000},
    ]
    work = call.world.broker.work.counters
    stored = await call("POST", PATH, {"messages": sent}, by="alice")
    assert stored.status == 200
    assert work.pauses >= 20
    before = work.pauses
    as_json = (await read(call, "encoding=json"))["messages"]
    as_text = (await read(call, "encoding=text"))["messages"]
    as_bytes = (await read(call, "encoding=base64"))["messages"]
    assert as_json[0]["value"] == value
    assert as_text[1]["text"] == sent[1]["text"]
    assert as_bytes[2]["base64"] == sent[2]["base64"]
    assert work.pauses >= before + 60


@pytest.mark.usefixtures("topic")
async def test_a_large_request_that_is_wrong_says_where(call: Rest) -> None:
    good = {"text": "x" * 2_000}
    for wrong, place in (({"text": 1}, "body.messages[40]"), ({}, "body.messages[40]")):
        replied = await call("POST", PATH, {"messages": [good] * 40 + [wrong]}, by="alice")
        assert (replied.status, place in replied.document["detail"]) == (400, True)
    replied = await call("POST", PATH, {"messages": [good] * 1_001}, by="alice")
    assert (replied.status, "1,001" in replied.document["detail"]) == (400, True)


@pytest.mark.usefixtures("topic")
async def test_json_of_another_encoding_is_not_put_into_the_reply(call: Rest) -> None:
    for text in ("\ufeff[1]".encode(), '"1"'.encode("utf-16-le"), b"[1" * 20_000):
        await call("POST", PATH, body=text, headers=RAW, by="alice")
    found = (await read(call, "encoding=json"))["messages"]
    assert all("value" not in message and message["base64"] for message in found)
