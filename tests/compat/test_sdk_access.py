"""Permissions as a second principal of the official SDK meets them."""

import pytest
from tests.compat.conftest import Sdk
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.server_process import ROOT_KEY, TALOS, Key, ServerProcess
from tests.waiting import completed

from opentalos.wire._generated.sds import ErrorCode

GET_AND_DESCRIBE, PUT_AND_DESCRIBE = 6, 5
DENIED, UNKNOWN = "PERMISSION_DENIED_ERROR", "TOPIC_NOT_EXIST"


def cli(server: ServerProcess, *words: str, key: Key = ROOT_KEY) -> str:
    """Run ``talos`` against the server."""
    command = [str(TALOS), *words, "--url", server.url, "--as", f"{key.key_id}:{key.secret}"]
    return completed(command, check=True).stdout


def new_key(server: ServerProcess, *words: str) -> Key:
    shown = dict(line.split(": ", 1) for line in cli(server, *words).splitlines())
    return Key(shown["key id"], shown["secret"])


def grant(server: ServerProcess, topic: RawTopic, principal: str, permission: int) -> None:
    definitions = idl("topic")
    grantee = idl("authorization").Grantee(type=1, identifier=principal)
    request = definitions.SetPermissionRequest(topic.resource, grantee, permission)
    topic.client.call("topic", "setPermission", request)


def codes(outcome: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: outcome[name].get("code", "") for name in ("describe", "put", "get", "delete")}


def test_a_principal_sees_and_does_only_what_was_granted(sdk: Sdk, server: ServerProcess) -> None:
    owner = RawClient(server.port)
    topic = RawTopic.create(owner, "private")
    topic.put(b"secret")
    key = new_key(server, "user", "create", "reader")
    arguments = {"topic": "private", "resource": topic.resource.topicTalosResourceName}

    outcome = sdk.run("access", key=key, **arguments)[0]
    assert set(codes(outcome).values()) == {UNKNOWN}, "unknown and not granted answer alike"
    assert outcome["listed"] == []

    grant(server, topic, "reader", GET_AND_DESCRIBE)
    outcome = sdk.run("access", key=key, **arguments)[0]
    assert outcome["describe"]["code"] == UNKNOWN, "a plain name means an accepted topic only"
    assert outcome["get"].get("code", "") == "", "the resource name always means this topic"

    cli(server, "acl", "accept", "root/private", key=key)
    outcome = sdk.run("access", key=key, **arguments)[0]
    assert codes(outcome) == {"describe": "", "put": DENIED, "get": "", "delete": DENIED}

    grant(server, topic, "reader", PUT_AND_DESCRIBE)
    outcome = sdk.run("access", key=key, **arguments)[0]
    assert codes(outcome) == {"describe": "", "put": "", "get": DENIED, "delete": DENIED}
    assert "reader" in server.stderr(), "denials are on record"
    owner.close()


def test_an_application_has_a_second_key_or_is_a_second_user(
    sdk: Sdk, sds: Sdk, server: ServerProcess
) -> None:
    """As docs/how-to/official-clients.md says, with its commands."""
    developer = new_key(server, "user", "create", "acme")
    topic = RawTopic.create(RawClient(server.port, developer), "orders")
    topic.put(b"first")
    columns = ("--key", "name:string", "--column", "age:int32")
    cli(server, "table", "create", "people", *columns, key=developer)
    arguments = {"topic": "orders", "resource": topic.resource.topicTalosResourceName}
    row = {"name": "ann", "age": 31}
    all_but_delete = {"describe": "", "put": "", "get": "", "delete": DENIED}

    scopes = ("--scope", "put", "--scope", "get", "--scope", "describe")
    second = new_key(server, "key", "create", "acme", *scopes)
    assert codes(sdk.run("access", key=second, **arguments)[0]) == all_but_delete
    assert sds.run("app_rows", key=second, table="people") == [{"row": row}]

    other = new_key(server, "user", "create", "acme-app")
    cli(server, "acl", "grant", "orders", "acme-app", "put", "get", "describe", key=developer)
    allowed = ("--allow", "acme-app:app-read,app-write")
    cli(server, "table", "alter", "people", *allowed, key=developer)
    missing = [{"code": ErrorCode.RESOURCE_NOT_FOUND}]
    assert codes(sdk.run("access", key=other, **arguments)[0])["describe"] == UNKNOWN
    assert sds.run("app_rows", key=other, table="people") == missing, "it has not accepted yet"
    cli(server, "acl", "accept", "acme/orders", key=other)
    cli(server, "table", "accept", "acme/people", key=other)
    assert codes(sdk.run("access", key=other, **arguments)[0]) == all_but_delete
    assert sds.run("app_rows", key=other, table="people") == [{"row": row}]
    topic.client.close()


def test_keys_rotate_without_a_pause_and_a_disabled_one_is_refused(server: ServerProcess) -> None:
    first = new_key(server, "user", "create", "rotating")
    second = new_key(server, "key", "create", "rotating")
    for key in (first, second):
        client = RawClient(server.port, key)
        assert client.call("topic", "listTopics", None).topicInfos == []
        client.close()
    cli(server, "key", "disable", first.key_id)
    client = RawClient(server.port, second)
    client.call("topic", "listTopics", None)
    client.close()
    refused = RawClient(server.port, first)
    assert refused.post("/v1/api/topic", b"\x82").status == 401
    refused.close()


def test_a_producers_topic_created_by_another_cannot_be_changed(server: ServerProcess) -> None:
    owner = RawClient(server.port)
    topic = RawTopic.create(owner, "not-yours")
    key = new_key(server, "user", "create", "passer-by")
    grant(server, topic, "passer-by", PUT_AND_DESCRIBE)
    stranger = RawTopic(RawClient(server.port, key), topic.name, topic.resource)
    stranger.put(b"allowed")
    definitions = idl("topic")
    change = definitions.ChangeTopicAttributeRequest(
        topic.resource, definitions.TopicAttribute(partitionNumber=9)
    )
    with pytest.raises(TalosError) as caught:
        stranger.client.call("topic", "changeTopicAttribute", change)
    assert caught.value.code == 28
    owner.close()
    stranger.client.close()
