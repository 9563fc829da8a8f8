"""The generated structs are current and keep what the clients rely on."""

import pytest
from scripts.generate_thrift import OUTPUT, generate

from opentalos.wire._generated import sds
from opentalos.wire._generated.message import GetMessageRequest, MessageBlock
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import TopicAndPartition, TopicTalosResourceName


def test_the_committed_structs_are_current() -> None:
    assert generate() == {path.name: path.read_text() for path in OUTPUT.glob("*.py")}


def test_services_have_paths_and_the_inherited_methods() -> None:
    paths = {service.path for service in SERVICES.values()}
    assert paths == {f"/v1/api/{name}" for name in "topic message consumer quota metric".split()}
    for service in SERVICES.values():
        assert {"getServiceVersion", "validClientVersion"} <= set(service.methods)


def test_a_file_that_is_its_own_entry_has_its_services() -> None:
    paths = {service.path for service in sds.SERVICES.values()}
    assert paths == {f"/v1/api/{name}" for name in "auth admin table".split()}
    for service in sds.SERVICES.values():
        assert {"getServerVersion", "getServerTime"} <= set(service.methods)
    assert sds.SERVICES["TableService"].methods["getServerTime"].error is None


def test_map_keys_hash_by_value() -> None:
    first, second = (
        TopicAndPartition(
            topicName="t",
            topicTalosResourceName=TopicTalosResourceName(topicTalosResourceName="o#t#u"),
            partitionId=1,
        )
        for _ in range(2)
    )
    assert {first: "here"}[second] == "here"


def test_defaults_of_the_schema_hold() -> None:
    target = TopicAndPartition(
        topicName="t",
        topicTalosResourceName=TopicTalosResourceName(topicTalosResourceName="o#t#u"),
        partitionId=1,
    )
    request = GetMessageRequest(topicAndPartition=target, messageOffset=0, sequenceId="")
    assert (request.maxGetMessageNumber, request.maxGetMessageBytes) == (2000, 10485760)
    block = MessageBlock(startMessageOffset=0, messageNumber=1, messageBlock=b"")
    assert block.compressionType == 0


def test_a_struct_without_its_required_fields_cannot_be_made() -> None:
    with pytest.raises(TypeError):
        TopicTalosResourceName()  # type: ignore[call-arg]  # the point of this test
