"""``talos migrate`` between two real servers."""

import random
from pathlib import Path

import pytest
from tests.e2e.migrate.conftest import KEY, Pair, contents, records_of
from tests.e2e.sdk.conftest import config_of
from tests.waiting import eventually, limit_s

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.sdk import (
    Client,
    Message,
    Permission,
    Quota,
    SimpleConsumer,
    SimpleProducer,
    TalosAdmin,
    TalosConsumer,
)

# Metering would hold retention up until the minute of the messages is over and published.
RETENTION = """\
[log]
segment_bytes_max = 65536
retention_interval_s = {interval_s}
[metering]
enabled = false
"""
RETENTION_AT_ONCE, NO_RETENTION = (RETENTION.format(interval_s=item) for item in (0.2, 86_400.0))


def test_a_topic_arrives_with_settings_permissions_and_messages(pair: Pair) -> None:
    pair.create(
        "orders", 2, retention_s=7_200, attributes={"partitioner": "murmur2", "team": "pay"},
        permissions={"alice": Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC},
    )  # fmt: skip
    for partition in (0, 1):
        keyed = [
            Message(b"%d" % number, f"key{number}", f"s{number}", 1_700_000_000_000 + number)
            for number in range(50)
        ]
        pair.put("orders", keyed, partition)
        pair.fill("orders", 5, partition)
    planned = pair.rows("--dry-run")
    assert [(row["topic"], row["action"], row["messages"]) for row in planned] == [
        ("orders", "create", 130)
    ]
    with Client(config_of(pair.target.url)) as client:
        assert "orders" not in [info.name for info in TalosAdmin(client).topics.list()]
    assert pair.rows()[0]["copied"] == 130
    for partition in (0, 1):
        copied = records_of(pair.target, "orders", partition)
        assert contents(copied) == contents(records_of(pair.source, "orders", partition))
    found = []
    for server in (pair.source, pair.target):
        with Client(config_of(server.url)) as client:
            described = TalosAdmin(client).topics.describe("orders")
        found.append((described.retention_s, described.attributes, described.permissions))
    assert found[0] == found[1]
    assert "alice" in found[0][2]
    pair.checked()
    assert pair.rows()[0]["copied"] == 0  # nothing is copied twice


def read_some(pair: Pair, side: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    server = pair.source if side == "source" else pair.target
    with TalosConsumer(config_of(server.url), "events", "readers") as consumer:
        for record in consumer:
            found.append(record.data)
            if len(found) == count:
                consumer.commit()
                break
    return found


def test_a_group_continues_at_the_target_at_the_same_message(pair: Pair) -> None:
    pair.create("events")
    pair.fill("events", 20)
    before = read_some(pair, "source", 25)
    assert pair.rows()[0]["positions_set"] == 1
    pair.checked()
    after = read_some(pair, "target", 35)
    assert before + after == [f"m{number}.{item}".encode() for number in range(20) for item in
                              range(3)]  # fmt: skip
    kept = pair.rows()[0]  # it has moved at the target: no way back
    assert (kept["positions_set"], kept["kept"]) == (0, ["readers"])
    assert "moved at the target" in {row["result"] for row in pair.rows("--check")}


def test_follow_copies_what_comes_meanwhile_and_ends_when_nothing_comes(pair: Pair) -> None:
    pair.create("live", 2)
    pair.fill("live", 3)
    process = pair.start("--follow", "--settle", "8")
    with SimpleProducer(config_of(pair.source.url), "live", 1) as producer:
        for number in range(20):
            producer.put([b"late%d" % number])
    out, err = process.communicate(timeout=limit_s())
    assert process.returncode == 0, out + err
    assert len(records_of(pair.target, "live", 1)) == 20
    pair.checked()
    pair.fill("live", 1)
    out, err = pair.run("--check", status=1)  # the source has gone on
    assert "end of partition 0" in out
    assert "DIFFERS" in out
    assert "1 difference" in err


def test_only_the_topics_of_the_patterns_are_copied(pair: Pair) -> None:
    for name in ("orders-eu", "orders-us", "clicks"):
        pair.create(name)
    assert [row["topic"] for row in pair.rows("--topic", "orders-*")] == ["orders-eu", "orders-us"]
    _, err = pair.run("--topic", "nothing*", status=1)
    assert "no topic of the source matches nothing*" in err


def test_bad_input_is_refused_with_the_remedy(pair: Pair, tmp_path: Path) -> None:
    pair.create("orders", 2)
    pair.environment["TALOS_SOURCE_KEY"] = "AKNOBODY:wrong-secret-of-nobody"
    _, err = pair.run(status=1)
    assert "TALOS_SOURCE_KEY" in err
    del pair.environment["TALOS_SOURCE_KEY"]
    with Client(config_of(pair.target.url)) as client:
        TalosAdmin(client).topics.create("orders", partitions=3)
    _, err = pair.run(status=1)
    assert "2 partitions at the source and 3 at the target" in err
    with Client(config_of(pair.target.url)) as client:
        TalosAdmin(client).topics.delete("orders")
        TalosAdmin(client).topics.create("orders", partitions=2)
    with SimpleProducer(config_of(pair.target.url), "orders", 0) as producer:
        producer.put([b"of somebody else"])
    _, err = pair.run(status=1)
    assert "not of this migration" in err
    _, err = pair.run("--check", "--follow", status=2)
    assert "--check" in err
    (tmp_path / "talos-migrate.json").write_text("{}")
    _, err = pair.run(status=1)
    assert "is not the state of a migration" in err


def test_somebody_else_who_writes_to_the_target_ends_the_copy(pair: Pair) -> None:
    pair.create("orders")
    pair.fill("orders", 2)
    pair.run()
    with SimpleProducer(config_of(pair.target.url), "orders", 0) as producer:
        producer.put([b"of somebody else"])
    pair.fill("orders", 2)
    _, err = pair.run(status=1)
    assert "refuses the next message" in err or "another program writes" in err


def test_a_key_without_rights_on_the_source_says_which_it_needs(pair: Pair) -> None:
    pair.create("orders", permissions={"bob": Permission.DESCRIBE_TOPIC})
    pair.fill("orders", 2)
    call = ServerOptions(url=pair.source.url, key=KEY).rest()
    call("POST", "principals", {"id": "bob"})
    key = call("POST", "principals/bob/keys")
    pair.environment["TALOS_SOURCE_KEY"] = f"{key['key_id']}:{key['secret']}"
    owner = call("GET", "topics/orders")["resource"].partition("#")[0]
    _, err = pair.run("--topic", f"{owner}/orders", status=1)
    assert "DESCRIBE_TOPIC and GET_MESSAGE" in err
    assert "at the source" in err


def test_a_target_over_its_quota_is_an_error_and_the_next_run_continues(pair: Pair) -> None:
    pair.create("orders")
    pair.fill("orders", 40, data="x" * 1_000)
    with Client(config_of(pair.target.url)) as client:
        admin = TalosAdmin(client)
        admin.topics.create("orders", partitions=1, quota=Quota(space_bytes=5_000))
        _, err = pair.run(status=1)
        assert "raise the quota" in err
        assert "orders at the target" in err
        assert len(records_of(pair.target, "orders")) < 120
        admin.quotas.reset_topic("orders")
    pair.run()
    assert len(records_of(pair.target, "orders")) == 120
    pair.checked()


@pytest.mark.parametrize("configs", [{"source": RETENTION_AT_ONCE}])
def test_a_log_that_begins_later_is_copied_from_there_with_positions(
    pair: Pair, configs: dict[str, str]
) -> None:
    assert "source" in configs
    pair.create("events", attributes={"retention.bytes": "100000"})
    blocks, lots = 0, random.Random(61)

    def removed() -> int:
        """Where the log begins after more blocks."""
        nonlocal blocks
        for _ in range(20):  # of three messages that cannot be compressed: segments are full soon
            pair.put("events", [Message(lots.randbytes(2_000)) for _ in range(3)])
        blocks += 20
        return _start_of(pair)

    eventually("retention removes the oldest segments", removed, state=lambda: f"{blocks} blocks")
    pair.source.stop()
    pair.source.config = NO_RETENTION  # from here on the log begins where it does
    pair.source.start()
    start = _start_of(pair)
    before = read_some(pair, "source", 10)
    assert pair.rows()[0]["copied"] == 3 * blocks - start
    source, target = records_of(pair.source, "events"), records_of(pair.target, "events")
    assert [record.offset for record in source] == list(range(start, 3 * blocks))
    assert [record.offset for record in target] == list(range(3 * blocks - start))
    assert [item.data for item in source] == [item.data for item in target]
    pair.checked()
    after = read_some(pair, "target", 3 * blocks - start - 10)
    assert before + after == [record.data for record in source]


def _start_of(pair: Pair) -> int:
    with SimpleConsumer(config_of(pair.source.url), "events") as consumer:
        return consumer.offsets()[0].start
