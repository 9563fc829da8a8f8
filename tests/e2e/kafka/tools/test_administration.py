"""Topics, settings and permissions, by Kafka's tools, as Kafka shows them."""

import re

import pytest
from tests.e2e.kafka.tools.kafka_tools import KafkaTools, Login
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess


def test_topics_from_creation_to_deletion(
    tools: KafkaTools, alice: Login, kafka_server: ServerProcess
) -> None:
    create = ("topics", "--create", "--topic", "orders", "--partitions", "3")
    settings = (
        "--config",
        "retention.ms=7200000",
        "--config",
        "flush.messages=9223372036854775807",
    )
    said = tools.done(alice, *create, "--replication-factor", "3", *settings)
    assert "Created topic orders." in said
    again = tools.run(alice, *create)
    assert (again.status, "topic orders exists" in again.text) == (1, True)
    assert tools.done(alice, *create, "--if-not-exists") is not None
    assert tools.done(alice, "topics", "--create", "--topic", "default-sizes")
    assert tools.done(alice, "topics", "--list").split() == ["default-sizes", "orders"]

    shown = tools.done(alice, "topics", "--describe", "--topic", "orders")
    summary, *partitions = shown.strip().splitlines()
    assert re.search(r"Topic: orders\s+TopicId: \S+\s+PartitionCount: 3", summary)
    assert "retention.ms=7200000" in summary
    assert "flush.messages=9223372036854775807" in summary
    assert len(partitions) == 3
    assert all(re.search(r"Leader: \d+\s+Replicas: \d+\s+Isr: \d+", line) for line in partitions)

    tools.done(alice, "topics", "--alter", "--topic", "orders", "--partitions", "5")
    fewer = tools.run(alice, "topics", "--alter", "--topic", "orders", "--partitions", "2")
    assert (fewer.status, "the new count must be larger" in fewer.text) == (1, True)
    found = rest(kafka_server, "GET", "topics/alice%2Forders").document
    assert (found["partitions"], found["retention_s"], found["durability"]) == (5, 7200, "flushed")

    for name in ("orders", "default-sizes"):
        tools.done(alice, "topics", "--delete", "--topic", name)
    assert tools.done(alice, "topics", "--list").strip() == ""
    gone = tools.run(alice, "topics", "--delete", "--topic", "orders")
    assert (gone.status, "does not exist" in gone.text) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--config", "cleanup.policy=compact"), "Compaction is not supported"),
        (("--config", "retention.ms=-1"), "cannot be unlimited"),
        (("--partitions", "100000"), "1 to 256 partitions"),
        (("--replica-assignment", "1:2"), "placement decides"),
    ],
)
def test_what_a_topic_cannot_be_is_said(
    tools: KafkaTools, alice: Login, arguments: tuple[str, ...], why: str
) -> None:
    refused = tools.run(alice, "topics", "--create", "--topic", "odd", *arguments)
    assert refused.status == 1
    assert why in refused.text


def test_settings_are_shown_changed_and_reset(tools: KafkaTools, alice: Login) -> None:
    tools.done(alice, "topics", "--create", "--topic", "kept", "--partitions", "1")
    which = ("--entity-type", "topics", "--entity-name", "kept")
    assert "=" not in tools.done(alice, "configs", "--describe", *which).partition("are:")[2]
    change = ("configs", "--alter", *which)
    tools.done(alice, *change, "--add-config", "retention.ms=3600000,retention.bytes=1000000")
    tools.done(alice, *change, "--add-config", "talos.durability=flushed")
    shown = tools.done(alice, "configs", "--describe", *which)
    assert "retention.bytes=1000000 sensitive=false" in shown
    own, default = "DYNAMIC_TOPIC_CONFIG:retention.ms=3600000", "log.retention.ms=86400000"
    assert "talos.durability=flushed" in shown
    assert f"synonyms={{{own}, DEFAULT_CONFIG:{default}}}" in shown
    tools.done(alice, *change, "--delete-config", "retention.ms,retention.bytes,flush.messages")
    shown = tools.done(alice, "configs", "--describe", "--all", *which)
    assert "retention.ms=86400000" in shown
    assert "flush.messages=1 " in shown
    refused = tools.run(alice, *change, "--add-config", "segment.bytes=1")
    assert refused.status == 1
    assert "no setting of a topic here" in refused.text

    servers = tools.done(alice, "configs", "--describe", "--entity-type", "brokers", "--all")
    assert "num.partitions=8 sensitive=false" in servers
    refused = tools.run(
        alice, "configs", "--alter", "--entity-type", "brokers", "--entity-default",
        "--add-config", "log.retention.ms=1",
    )  # fmt: skip
    assert refused.status == 1
    assert "configuration file" in refused.text


def test_the_options_for_producers_and_consumers_give_what_clients_need(
    tools: KafkaTools, alice: Login, bob: Login
) -> None:
    tools.done(alice, "topics", "--create", "--topic", "piped", "--partitions", "1")
    who, topic = ("--allow-principal", "User:bob"), ("--topic", "piped")
    producer = (*who, *topic, "--producer", "--idempotent")
    consumer = (*who, *topic, "--consumer", "--group", "readers")
    for _ in range(2):  # again: the tool leaves out what is listed
        tools.done(alice, "acls", "--add", *producer)
        assert operations(tools, alice, "piped") == {"WRITE", "DESCRIBE"}
    theirs = ("--topic", "alice/piped")
    tools.done(bob, "topics", "--create", "--if-not-exists", *theirs)
    tools.done(bob, "console-producer", *theirs, stdin="paid\n")
    for _ in range(2):
        tools.done(alice, "acls", "--add", *consumer)
        assert operations(tools, alice, "piped") == {"WRITE", "DESCRIBE", "READ"}
    assert "readers" not in tools.done(alice, "acls", "--list")
    read = ("--group", "readers", "--from-beginning", "--max-messages", "1")
    assert tools.done(bob, "console-consumer", *theirs, *read) == "paid\n"

    tools.done(alice, "acls", "--remove", "--force", *consumer)
    assert operations(tools, alice, "piped") == {"WRITE"}
    tools.done(alice, "acls", "--remove", "--force", *producer)
    assert operations(tools, alice, "piped") == set()
    assert tools.run(bob, "topics", "--create", *theirs).status == 1
    tools.done(alice, "topics", "--delete", "--topic", "piped")


def test_options_for_what_cannot_be_granted_say_so(
    tools: KafkaTools, alice: Login, bob: Login
) -> None:
    for name in ("one", "two"):
        tools.done(alice, "topics", "--create", "--topic", name, "--partitions", "1")
    add, bobs = ("acls", "--add"), ("--allow-principal", "User:bob")
    consumer = ("--consumer", "--group", "readers")
    for arguments, why in (
        (("--topic", "one", *bobs, "--producer", "--allow-host", "127.0.0.1"), "any host"),
        (("--topic", "o", "--resource-pattern-type", "prefixed", *bobs, "--producer"), "one topic"),
        (("--topic", "one", "--allow-principal", "User:*", *consumer), "everybody"),
        (("--topic", "nothing", *bobs, "--producer"), "nothing does not exist"),
    ):
        refused = tools.run(alice, *add, *arguments)
        assert refused.status == 1, arguments
        assert why in refused.text, arguments
        assert tools.done(alice, "acls", "--list").strip() == ""
    transactional = tools.run(
        alice, *add, "--topic", "one", *bobs, "--producer", "--transactional-id", "t"
    )
    assert transactional.status == 1
    assert "of User:bob on transactional_id 't': only topics have permissions" in transactional.text
    denied = tools.run(bob, *add, "--topic", "alice/two", *bobs, "--producer")
    assert denied.status == 1
    assert "alice/two does not exist" in denied.text
    for name in ("one", "two"):
        tools.done(alice, "topics", "--delete", "--topic", name)


def operations(tools: KafkaTools, who: Login, topic: str) -> set[str]:
    listed = tools.done(who, "acls", "--list", "--topic", topic)
    return set(re.findall(r"operation=(\w+)", listed))


def test_permissions_are_access_control_lists(
    tools: KafkaTools, alice: Login, bob: Login, kafka_server: ServerProcess
) -> None:
    tools.done(alice, "topics", "--create", "--topic", "shared", "--partitions", "1")
    topic, add = ("--topic", "shared"), ("acls", "--add", "--allow-principal", "User:bob")
    assert "shared" not in tools.done(bob, "topics", "--list")
    tools.done(alice, *add, *topic, "--operation", "Read", "--operation", "Describe")
    listed = tools.done(alice, "acls", "--list", *topic)
    entries = re.findall(
        r"principal=(\S+), host=(\S), operation=(\w+), permissionType=(\w+)", listed
    )
    assert sorted(entries) == [
        ("User:bob", "*", "DESCRIBE", "ALLOW"),
        ("User:bob", "*", "READ", "ALLOW"),
    ]
    granted = rest(kafka_server, "GET", "topics/alice%2Fshared/permissions").document["permissions"]
    assert granted["bob"] == ["GET_MESSAGE", "DESCRIBE_TOPIC"]
    assert tools.done(bob, "topics", "--list").split() == ["alice/shared"]
    assert "name=alice/shared" in tools.done(bob, "acls", "--list")

    denied = tools.run(bob, *add, "--topic", "alice/shared", "--operation", "Write")
    assert denied.status == 1
    assert "lacks CHANGE_PERMISSION" in denied.text
    for arguments, why in (
        (("--allow-principal", "User:bob", "--operation", "All"), "READ, WRITE and DESCRIBE"),
        (("--deny-principal", "User:bob", "--operation", "Read"), "only allow"),
        (("--allow-principal", "User:*", "--operation", "Read"), "everybody"),
        (
            ("--allow-principal", "User:bob", "--allow-host", "127.0.0.1", "--operation", "Read"),
            "any host",
        ),
    ):
        refused = tools.run(alice, "acls", "--add", *topic, *arguments)
        assert refused.status == 1
        assert why in refused.text

    remove = ("acls", "--remove", "--force", "--allow-principal", "User:bob")
    tools.done(alice, *remove, *topic, "--operation", "Describe")
    assert "DESCRIBE" not in tools.done(alice, "acls", "--list", *topic)
    tools.done(alice, *remove, *topic, "--operation", "Read")
    assert tools.done(alice, "acls", "--list").strip() == ""
    assert tools.done(bob, "topics", "--list").strip() == ""


def test_another_tenants_topic_is_as_unknown_as_none(
    tools: KafkaTools, alice: Login, bob: Login
) -> None:
    tools.done(alice, "topics", "--create", "--topic", "secret", "--partitions", "1")
    calls: tuple[tuple[str, ...], ...] = (
        ("topics", "--describe"),
        ("topics", "--delete"),
        ("topics", "--alter", "--partitions", "9"),
        ("configs", "--describe", "--all"),
        ("configs", "--alter", "--add-config", "retention.ms=7200000"),
        ("acls", "--list"),
        ("acls", "--add", "--allow-principal", "User:bob", "--operation", "Read"),
        ("acls", "--remove", "--force"),
    )
    for call in calls:
        answers = []
        for name in ("alice/secret", "alice/nothing"):
            found = tools.run(bob, *call, "--topic", name)
            text = re.sub(r"\d+", "N", found.text.replace(name, "alice/T"))
            answers.append((found.status, text))
        assert answers[0] == answers[1], call


def test_changes_are_in_the_audit_trail_with_the_client_and_its_request(
    tools: KafkaTools, alice: Login, kafka_server: ServerProcess
) -> None:
    topic = ("--topic", "audited")
    tools.done(alice, "topics", "--create", *topic, "--partitions", "1")
    tools.done(alice, "configs", "--alter", *topic, "--add-config", "retention.ms=7200000")
    principal = ("--allow-principal", "User:bob", "--operation", "Read")
    tools.done(alice, "acls", "--add", *topic, *principal)
    tools.done(alice, "acls", "--remove", "--force", *topic, *principal)
    tools.done(alice, "topics", "--delete", *topic)
    lines = [
        line
        for line in (kafka_server.folder / "server.stderr").read_text().splitlines()
        if " audit " in line and "alice#audited#" in line
    ]
    actions = [re.search(r" action='([^']*)'", line) for line in lines]
    assert [found[1] for found in actions if found] == [
        "create a topic",
        "change a topic",
        "grant",
        "revoke",
        "delete a topic",
    ]
    for line in lines:
        assert "principal='alice'" in line
        assert "address='127.0.0.1'" in line
        assert re.search(r"request='adminclient-\d+/\d+'", line)


def test_the_versions_of_what_is_served_are_known(tools: KafkaTools, alice: Login) -> None:
    shown = tools.done(alice, "broker-api-versions")
    assert re.search(r"CreateTopics\(19\): 2 to 7 \[usable: 7\]", shown)
    assert re.search(r"DescribeAcls\(29\): 1 to 3 \[usable: 3\]", shown)
