"""Every command once against a real server."""

import os
import pty
import re
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import Commands
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import ended

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.sdk import ClientConfig
from opentalos.sdk.rest_client import RestClient


def test_the_life_of_a_topic(talos: Commands) -> None:
    made = talos(
        "topic", "create", "made", "--partitions", 2, "--retention", 90_000, "--attribute", "a=b"
    )
    assert made.out == "created made with 2 partitions\n"
    assert "made" in talos("topic", "list").out
    shown = talos("topic", "describe", "made", "--format", "json").rows[0]
    evenly = {"partitioner": "murmur2"}
    assert (shown["retention_s"], shown["attributes"]) == (90_000, {"a": "b"} | evenly)
    talos("topic", "alter", "made", "--attribute", "c=d", "--remove-attribute", "a")
    shown = talos("topic", "describe", "made", "--format", "json").rows[0]
    assert shown["attributes"] == {"c": "d"} | evenly
    assert talos("topic", "set-partitions", "made", 3).out == (
        "made has 3 partitions now, 2 before\n"
    )
    assert talos("topic", "describe", "made", "--format", "tsv").out.splitlines()[0] == (
        "partition\tstart\tnext\tmessages\tbytes"
    )
    assert "Delete made with 0 messages?" in talos("topic", "delete", "made", status=2).err
    talos("topic", "delete", "made", "--yes")
    assert "made does not exist" in talos.fails("topic", "describe", "made")


def test_describe_names_a_partition_with_most_messages(talos: Commands) -> None:
    for name, rule in (("even", "murmur2"), ("crowded", "official")):
        talos("topic", "create", name, "--partitions", 4, "--attribute", f"partitioner={rule}")
        lines = "".join(f"user-{number}:x\n" for number in range(1_500))
        talos("produce", name, "--key-separator", ":", stdin=lines)
    assert "of the messages" not in talos("topic", "describe", "even").out
    assert "Partition 3 has 66% of the messages" in talos("topic", "describe", "crowded").out


def test_no_command_asks_for_more_partitions_than_any_server_allows(talos: Commands) -> None:
    for arguments in (
        ("create", "huge", "--partitions", 10_001),
        ("set-partitions", "huge", 10_001),
    ):
        assert "1<=x<=10000" in talos("topic", *arguments, status=2).err
    assert "partitions_max" in talos.fails("topic", "create", "huge", "--partitions", 10_000)


def test_a_shrink_asks_first(talos: Commands) -> None:
    talos.topic("shrinks", 3)
    said = talos("topic", "set-partitions", "shrinks", 2, status=2).err
    assert "Shrink shrinks from 3 to 2 partitions?" in said
    assert talos("topic", "describe", "shrinks", "--format", "json").rows[0]["partitions"] == 3


def test_offsets_by_time(talos: Commands) -> None:
    talos.topic("timed")
    talos("produce", "timed", stdin="a\nb\n")
    row = talos("topic", "offsets", "timed", "--at", "1h", "--format", "json").rows[0]
    assert row == {"partition": 0, "start": 0, "end": 1, "next": 2, "at": 0}
    later = talos("topic", "offsets", "timed", "--at", "@4102444800", "--format", "json").rows[0]
    assert later["at"] == 2


def test_permissions_users_and_keys(talos: Commands) -> None:
    topic = talos.topic("guarded")
    key = talos("user", "create", "alice", "--format", "json").rows[0]
    alice = Commands(talos.folder, talos.server)
    alice.environment["TALOS_KEY"] = f"{key['key_id']}:{key['secret']}"
    assert "does not exist" in alice.fails("topic", "describe", topic)
    talos("acl", "grant", topic, "alice", "describe", "get")
    listed = {
        row["grantee"]: row["permissions"]
        for row in talos("acl", "list", topic, "--format", "json").rows
    }
    assert listed["alice"] == ["get", "describe"]
    assert topic in alice("topic", "list").out
    assert f"write root/{topic}, or accept" in alice.fails("topic", "describe", topic)
    alice("topic", "describe", f"root/{topic}")
    assert "talos acl grant" in alice.fails("topic", "delete", f"root/{topic}", "--yes")
    alice("acl", "accept", f"root/{topic}")
    alice("topic", "describe", topic)
    alice("acl", "decline", topic)
    alice.fails("topic", "describe", topic)
    alice("acl", "accept", f"root/{topic}")
    talos("acl", "revoke", topic, "alice")
    assert "does not exist" in alice.fails("topic", "describe", topic)
    talos("acl", "grant", topic, "alice", "describe")
    assert "or accept" in alice.fails("topic", "describe", topic)
    talos("acl", "revoke", topic, "alice")

    assert "live" in talos("user", "list").out
    talos("user", "disable", "alice")
    assert "check the key" in alice.fails("topic", "list")
    talos("user", "enable", "alice")
    alice("topic", "list")
    fresh = talos("key", "rotate", key["key_id"], "--format", "json").rows[0]
    talos("key", "disable", key["key_id"])
    assert "check the key" in alice.fails("topic", "list")
    alice.environment["TALOS_KEY"] = f"{fresh['key_id']}:{fresh['secret']}"
    alice("topic", "list")
    states = talos("key", "list", "alice", "--format", "json").rows
    assert {row["key_id"]: row["state"] for row in states} == {
        key["key_id"]: "disabled",
        fresh["key_id"]: "live",
    }
    assert re.fullmatch(r"key id: \w+\nsecret: \S+\n", talos("key", "create", "alice").out)


def test_quotas_and_requests(talos: Commands) -> None:
    topic = talos.topic("limited")
    assert "put bytes per s:" in talos("quota", "show").out
    talos("quota", "set", "--topic", topic, "--put-bytes-per-s", 12_345)
    shown = talos("quota", "show", "--topic", topic, "--format", "json").rows[0]
    assert shown["put_bytes_per_s"] == 12_345
    talos("quota", "reset", "--topic", topic)
    shown = talos("quota", "show", "--topic", topic, "--format", "json").rows[0]
    assert shown["put_bytes_per_s"] != 12_345
    talos("user", "create", "bob")
    talos("quota", "set", "--user", "bob", "--topics", 3)
    assert [row["user"] for row in talos("quota", "show", "--users", "--format", "json").rows] == [
        "bob"
    ]
    talos("quota", "request", 20, "--organisation", "CLshop", "--reason", "sale")
    assert "sale" in talos("quota", "requests").out
    talos("quota", "approve", "CLshop", "--total", 10)
    assert talos("quota", "requests").out == ""
    talos("quota", "request", 30, "--organisation", "CLshop")
    talos("quota", "reject", "CLshop")
    assert talos("quota", "requests", "--format", "json").rows == []


def test_requests_that_are_decided_automatically(talos: Commands) -> None:
    ask = ("quota", "request", "--organisation", "CLauto", "--auto", "--format", "json")
    assert talos(*ask, 10_000).rows[0]["outcome"] == "approve"  # what everybody has
    waits = talos(*ask, 10_001).rows[0]
    assert waits["outcome"] == "human"
    assert "the history of your traffic is unknown" in waits["reason"]
    assert waits["reason"] in talos("quota", "requests").out
    projection = {
        "tenant": "CLauto", "made_ms": int(time.time() * 1000), "days": 60, "level": 30_000_000,
        "trend_per_day": 0, "season": [1_000] * 7, "spread": 0, "peak": 31_000_000,
    }  # fmt: skip
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    call = ServerOptions(url=talos.server.url, key=key).rest()
    call("PUT", "quota-projections", {"projections": [projection]})
    rejected = talos(*ask, 20_000, status=1).rows[0]
    assert rejected["outcome"] == "reject"
    assert "you requested 20000" in rejected["reason"]
    shown = talos("quota", "projection", "CLauto", "--format", "json").rows[0]
    assert (shown["level"], shown["season"]) == (30_000_000, "1000 1000 1000 1000 1000 1000 1000")
    assert [row["tenant"] for row in talos("quota", "projection", "--format", "json").rows] == [
        "CLauto"
    ]
    assert "tenant nobody has no projection" in talos.fails("quota", "projection", "nobody")
    talos("quota", "reject", "CLauto")


def test_groups_and_an_undone_reset(talos: Commands) -> None:
    topic = talos.topic("grouped", 2)
    for partition in (0, 1):
        talos("produce", topic, "--partition", partition, stdin="0\n1\n2\n3\n4\n")
    read = talos("consume", topic, "--group", "g", "--count", 10)
    assert sorted(read.out.split()) == sorted("01234" * 2)
    caught_up = {"lag": 0, "lag_s": 0.0, "lag_max": 0, "behind": 0, "damaged": 0}
    assert talos("group", "list", topic, "--format", "json").rows == [{"group": "g", **caught_up}]

    def checkpoints() -> list[int]:
        rows = talos("group", "describe", topic, "g", "--format", "json").rows
        return [row["checkpoint"] for row in rows]

    first = talos("group", "describe", topic, "g", "--limit", 1, "--format", "json").rows
    by_lag = talos("group", "describe", topic, "g", "--order", "lag", "--format", "json").rows
    assert ([row["partition"] for row in first], len(by_lag)) == ([0], 2)
    talos("group", "members", topic, "g")

    before = checkpoints()
    dry = talos("group", "reset", topic, "g", "--to", "start", "--dry-run", "--format", "json")
    assert [(row["before"], row["after"]) for row in dry.rows] == [(item, -1) for item in before]
    assert checkpoints() == before
    assert list(talos.folder.glob("*undo*")) == []

    said = talos("group", "reset", topic, "g", "--to", "start").err
    (undo,) = talos.folder.glob("*undo*")
    assert f"talos group reset {topic} g --from-file {undo.name}" in said
    assert checkpoints() == [-1, -1]
    talos("group", "reset", topic, "g", "--from-file", undo, "--undo-file", "other")
    assert checkpoints() == before
    again = talos.fails("group", "reset", topic, "g", "--to", "end", "--undo-file", "other")
    assert "already exists" in again
    assert checkpoints() == before

    talos("group", "reset", topic, "g", "--to", 2, "--partition", 1)
    assert checkpoints() == [before[0], 1]
    other = talos.topic("another")
    assert "belongs to topic" in talos.fails("group", "reset", other, "g", "--from-file", undo)
    call = ServerOptions(url=talos.server.url, key=f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}").rest()
    call("POST", f"topics/{topic}/groups/g/workers")  # and does not leave
    said = talos.fails("group", "delete", topic, "g", "--yes")
    assert "one that was killed stays listed until its lease expires" in said


def test_a_group_without_workers_is_deleted(talos: Commands) -> None:
    topic = talos.topic("regrouped")
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    call = ServerOptions(url=talos.server.url, key=key).rest()
    worker = call("POST", f"topics/{topic}/groups/left/workers")["worker"]
    call("DELETE", f"topics/{topic}/groups/left/workers/{worker}")
    listed = talos("group", "list", topic, "--format", "tsv").out.splitlines()
    assert listed[0].split() == ["group", "lag", "lag_s", "lag_max", "behind"]
    assert listed[1].split()[:2] == ["left", "0"]
    assert "Delete group left" in talos("group", "delete", topic, "left", status=2).err
    talos("group", "delete", topic, "left", "--yes")
    assert talos("group", "list", topic, "--format", "json").rows == []
    said = talos.fails("group", "reset", topic, "left", "--to", "end")
    assert "list the groups with talos group list" in said
    assert list(talos.folder.glob("*undo*")) == []


def test_leases_are_shown_and_taken_away(talos: Commands) -> None:
    assert talos("lease", "list").err == "no leases\n"
    rest = RestClient(
        ClientConfig(endpoints=(talos.server.url,), key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)
    )
    rest("PUT", "leases/run", {"holder": "host:1", "ttl_ms": 60_000})
    (row,) = talos("lease", "list", "--format", "json").rows
    assert (row["name"], row["holder"], row["epoch"], row["expired"]) == ("run", "host:1", 1, False)
    assert "host:1" in talos("lease", "show", "run").out
    refused = talos("lease", "release", "run", "--epoch", 7, status=1)
    assert "host:1 holds it under epoch 1" in refused.err
    talos("lease", "release", "run", "--epoch", 1)
    assert "no lease run is held" in talos("lease", "show", "run", status=1).err
    assert talos("lease", "list", "--tenant", "nobody").err == "no leases\n"


def test_profiles_and_data_directories_find_the_server(talos: Commands) -> None:
    key = talos.environment.get("TALOS_KEY") or talos.variables()["TALOS_KEY"]
    talos("profile", "add", "here", "--url", talos.server.url, "--as", key)
    talos.environment |= {"TALOS_URL": "", "TALOS_KEY": ""}
    talos.topic("by-profile")
    assert "by-profile" in talos("topic", "list", "--profile", "here").out
    talos("profile", "remove", "here")
    assert "no server is running on talos-data" in talos.fails("topic", "list")
    assert "by-profile" in talos("topic", "list", "--data", talos.server.data, "--as", key).out


def test_the_first_server_that_answers_is_used(talos: Commands) -> None:
    talos.environment["TALOS_URL"] = f"http://127.0.0.1:1,{talos.server.url}"
    topic = talos.topic("second-address")
    talos("produce", topic, stdin="a\n")
    assert talos("consume", topic).out == "a\n"


def test_bench_leaves_nothing_behind(talos: Commands) -> None:
    shown = talos("bench", "--seconds", 0.5, "--max-mib", 2, "--format", "json").rows
    put, get = shown
    assert (put["load"], get["load"]) == ("put", "get")
    assert put["messages"] == get["messages"] > 0
    assert put["failed"] == 0
    names = [row["name"] for row in talos("topic", "list", "--format", "json").rows]
    assert not [name for name in names if name.startswith("bench-")]


def test_the_commands_of_servers(talos: Commands, tmp_path: Path) -> None:
    assert "leader" in talos("cluster", "status").out
    assert talos("cluster", "status", "--format", "tsv").out.startswith("name\tstate\t")
    (status,) = talos("cluster", "status", "--format", "json").rows
    assert status["servers"]
    assert "cluster" in talos.fails("cluster", "drain", "nobody")
    shown = talos("config", "show").out
    (tmp_path / "file.toml").write_text(shown)
    talos("config", "check", "file.toml")
    states = talos("backend", "status", "all", "--home", tmp_path / "none", "--format", "json").rows
    assert [row["kind"] for row in states] == [
        "hdfs", "zookeeper", "hbase", "druid", "kafka", "yarn"
    ]  # fmt: skip
    assert "cannot lock data directory" in talos.fails("log", "verify", "--data", talos.server.data)


def test_a_stopped_server_s_logs_are_verified(own: Commands) -> None:
    own.topic("t")
    own("produce", "t", stdin="a\n")
    own.server.stop()
    rows = own("log", "verify", "--data", own.server.data, "--format", "json").rows
    assert rows[-1]["kind"] == "summary"
    assert rows[-1]["text"].endswith(": 0 problems")


def test_completion_of_bash_knows_commands_and_topics(talos: Commands) -> None:
    talos.topic("complete-me")
    script = """
        eval "$(talos completion bash)"
        complete -p talos
        COMP_WORDS=(talos topic describe comp); COMP_CWORD=3; COMPREPLY=()
        _talos_completion talos; echo "${COMPREPLY[@]}"
        COMP_WORDS=(talos gro); COMP_CWORD=1; COMPREPLY=()
        _talos_completion talos; echo "${COMPREPLY[@]}"
    """
    lines = talos.shell(script).out.splitlines()
    assert lines[0].endswith("-F _talos_completion talos")
    assert lines[1:] == ["complete-me", "group"]
    talos.environment["TALOS_URL"] = "http://127.0.0.1:1"
    assert talos.shell(script).out.splitlines()[1] == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(talos: Commands, shell: str) -> None:
    assert "talos" in talos("completion", shell).out


def test_deleting_a_topic_asks_on_a_terminal(talos: Commands) -> None:
    topic = talos.topic("asked")

    def answer(text: bytes) -> int:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [str(TALOS), "topic", "delete", topic], stdin=theirs, env=talos.variables(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=talos.folder,
        )  # fmt: skip
        os.close(theirs)
        os.write(ours, text)
        status = ended(process)
        os.close(ours)
        return status

    assert answer(b"n\n") == 130
    assert talos.stored(topic) == 0
    assert answer(b"y\n") == 0
    assert "does not exist" in talos.fails("topic", "describe", topic)


def test_https_needs_the_certificate_authority(talos: Commands, tmp_path: Path) -> None:
    files = TlsFolder(tmp_path / "files")
    server = ServerProcess(tmp_path / "tls", files.section()).start()
    try:
        secure = Commands(tmp_path, server)
        ca = ("--ca", files.ca)
        secure("topic", "create", "t", *ca)
        secure("produce", "t", *ca, stdin="a\n")
        assert secure("consume", "t", *ca).out == "a\n"
        assert "no authority that this client trusts" in secure.fails("topic", "list")
        key = secure.variables()["TALOS_KEY"]
        secure("profile", "add", "s", "--url", server.url, "--as", key, *ca)
        assert secure("consume", "t", "--profile", "s").out == "a\n"
    finally:
        server.stop()


def test_groups_of_all_topics(talos: Commands) -> None:
    for name in ("listed-a", "listed-b"):
        talos.topic(name)
        talos("produce", name, stdin="x\n")
    talos("consume", "listed-b", "--group", "readers", "--count", 1)
    rows = talos("group", "list", "--format", "json").rows
    assert ("listed-b", "readers", 0) in [(row["topic"], row["group"], row["lag"]) for row in rows]
    assert "listed-a" not in {row["topic"] for row in rows}


def test_settings_that_a_topic_does_not_have_are_refused(talos: Commands) -> None:
    said = talos.fails("topic", "create", "compacted", "--attribute", "cleanup.policy=compact")
    assert "cleanup.policy is not supported" in said
    assert (
        "durability (synced or flushed), partitioner (murmur2 or official) and retention.bytes"
        in said
    )
    kept = ("--attribute", "retention.bytes=1000", "--attribute", "team=payments")
    talos("topic", "create", "kept", *kept, "--retention", "7d")
    assert talos("topic", "describe", "kept", "--format", "json").rows[0]["retention_s"] == 604_800
    said = talos.fails("topic", "alter", "kept", "--attribute", "retention.ms=1")
    assert "retention.ms is not supported" in said


def test_a_grant_to_nobody_warns(talos: Commands) -> None:
    topic = talos.topic("granted")
    assert "no user nobody-yet" in talos("acl", "grant", topic, "nobody-yet", "get").err
    talos("user", "create", "known")
    for grantee in ("known", "CLshop", "guest"):
        assert talos("acl", "grant", topic, grantee, "get").err == ""


def test_both_names_of_the_ends_of_a_partition(talos: Commands) -> None:
    topic = talos.topic("ended")
    talos("produce", topic, stdin="a\n")
    for start, out in (("earliest", "a\n"), ("latest", ""), ("5m", "a\n"), ("start", "a\n")):
        assert talos("consume", topic, "--from", start).out == out
