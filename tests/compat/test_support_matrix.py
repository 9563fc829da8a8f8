"""The README's support matrix is true: what is listed as not supported says so."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.raw_client import RawClient, RawTopic, TalosError, block_of, idl
from tests.server_process import ServerProcess

CODES = {"OPERATION_FAILED": 17, "NOT_TRANSACTION_TOPIC_ERROR": 48}
README = Path(__file__).resolve().parent.parent.parent / "README.md"


@pytest.fixture(scope="module")
def topic(server: ServerProcess) -> Iterator[RawTopic]:
    client = RawClient(server.port)
    yield RawTopic.create(client, "matrix")
    client.close()


def request_of(topic: RawTopic, rpc: str) -> tuple[str, Any]:
    """The service and a well-formed request of a call that is not served yet."""
    message, definitions, first = idl("message"), idl("topic"), topic.partition()
    requests: dict[str, tuple[str, Any]] = {
        "prepare": ("message", message.PrepareRequest(first, block_of(b"x"), 1, "s#1")),
        "commit": ("message", message.CommitRequest(first, 1, "s#1")),
        "rollback": ("message", message.RollbackRequest(first, 1, "s#1")),
        "getUnkownStateTransaction": (
            "message",
            message.GetUnkownStateTransactionRequest(first),
        ),
        "createReplicationTopic": (
            "topic",
            definitions.CreateReplicationTopicRequest("mirror", []),
        ),
        "changeReplicationTopicSourceInfo": (
            "topic",
            definitions.ChangeReplicationTopicSourceInfoRequest(topic.resource, []),
        ),
        "messageTags": (
            "message",
            message.GetMessageRequest(
                topicAndPartition=first, messageOffset=0, sequenceId="s#1", messageTags={"a"}
            ),
        ),
    }
    return requests[rpc]


def listed() -> list[tuple[str, int]]:
    """Names in the README's rows that answer "not supported yet", and the code there."""
    rows = [
        line.split("|") for line in README.read_text().splitlines() if '"not supported yet"' in line
    ]
    word = re.compile(r"`(\w+)`")
    named = [
        (name, CODES[word.findall(answer)[0]])
        for _, names, answer, _ in rows
        for name in word.findall(names)
    ]
    assert len(named) == 7, named
    return named


@pytest.mark.parametrize(("name", "code"), listed())
def test_what_the_matrix_lists_as_missing_says_so(topic: RawTopic, name: str, code: int) -> None:
    service, request = request_of(topic, name)
    rpc = "getMessage" if name == "messageTags" else name
    with pytest.raises(TalosError) as caught:
        topic.client.call(service, rpc, request)
    assert caught.value.code == code
    assert "not supported yet" in caught.value.text


def test_every_compression_and_format_passes_untouched(topic: RawTopic) -> None:
    payloads = [bytes([0x56, 0, 3, 0]) + b"any", b"\x82SNAPPY", b"\x1f\x8b", b"(\xb5/\xfd", b"lz4"]
    start = sum(block.messageNumber for block in topic.get(0).messageBlocks)
    for compression, payload in enumerate(payloads):
        block = block_of(b"x")
        block.compressionType, block.messageBlock = compression, payload
        block.messageBlockSize = len(payload)
        request = idl("message").PutMessageRequest(topic.partition(), [block], 1, "s#1")
        topic.client.call("message", "putMessage", request)
    stored = topic.get(start).messageBlocks
    assert [item.messageBlock for item in stored] == payloads
    assert [item.compressionType for item in stored] == [0, 1, 2, 3, 4]
