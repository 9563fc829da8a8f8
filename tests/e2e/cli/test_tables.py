"""talos table: tables, rows and streams against a real server."""

import json
from typing import Any

from tests.e2e.cli.conftest import Commands
from tests.waiting import eventually

from opentalos.sdk import ClientConfig
from opentalos.sdk.stream import TableFollower


def made(talos: Commands, name: str, *options: object) -> str:
    talos("table", "create", name, "--key", "k:string", "--column", "n:int32", *options)
    return name


def row(talos: Commands, *arguments: object) -> dict[str, Any]:
    (found,) = talos(*arguments, "--format", "json").rows
    return found


def test_the_life_of_a_table(talos: Commands) -> None:
    created = talos(
        "table", "create", "whole", "--group", "u:int64", "--key", "k:string:desc",
        "--hashed", "--shards", 2, "--column", "n:int32", "--index", "by_n:n", "--ttl", 86400,
        "--description", "all of it",
    )  # fmt: skip
    assert created.out == "created whole with 3 columns in 2 shards\n"
    shown = row(talos, "table", "describe", "whole")
    assert (shown["state"], shown["shards"], shown["ttl_s"]) == ("enabled", 2, 86400)
    assert shown["key"] == [{"column": "k", "descending": True}]
    text = talos("table", "describe", "whole").out
    for part in ("key, descending", "by_n", "all of it"):
        assert part in text
    assert talos("table", "describe", "whole", "--format", "tsv").out.splitlines() == [
        "column\ttype\tpart", "u\tint64\tgroup", "k\tstring\tkey, descending", "n\tint32\t",
    ]  # fmt: skip
    assert "whole" in talos("table", "list").out
    talos("table", "alter", "whole", "--column", "more:bool", "--drop-index", "by_n", "--ttl", 0)
    shown = row(talos, "table", "describe", "whole")
    assert (shown["columns"]["more"], shown["indexes"], shown["ttl_s"]) == ("bool", {}, None)
    refused = talos("table", "drop", "whole", status=2)
    assert "pass --yes" in refused.err
    assert talos("table", "drop", "whole", "--yes").out == "dropped whole\n"
    assert "table whole does not exist" in talos.fails("table", "describe", "whole")


def test_a_quota_is_enforced_and_shown(talos: Commands) -> None:
    table = made(talos, "small", "--quota", 120)
    assert row(talos, "table", "describe", table)["used_bytes"] == 0
    talos("table", "put", table, "k=a", "n=1")
    shown = row(talos, "table", "describe", table)
    assert shown["quota_bytes"] == 120
    assert 0 < shown["used_bytes"] < 120
    assert "used bytes" in talos("table", "describe", table).out
    long = f"k={'x' * 100}"
    assert "limit 120 bytes, measured" in talos.fails("table", "put", table, long)
    assert "remove rows first" in talos.fails("table", "alter", table, "--quota", 1)
    version = shown["schema_version"]
    talos("table", "alter", table, "--quota", 0, "--if-version", version)
    refused = talos.fails("table", "alter", table, "--ttl", 60, "--if-version", version)
    assert f"has schema version {version + 1}, not {version}" in refused
    talos("table", "put", table, long)
    assert row(talos, "table", "describe", table)["used_bytes"] is None
    refused = talos("table", "alter", table, "--if-version", 1, status=2).err
    assert "nothing to change" in refused


def test_capacity_of_a_table_is_set_and_removed(talos: Commands) -> None:
    table = made(talos, "rated")
    talos("table", "alter", table, "--read-capacity", 700, "--write-capacity", 50)
    shown = row(talos, "table", "describe", table)
    assert (shown["read_capacity"], shown["write_capacity"]) == (700, 50)
    talos("table", "alter", table, "--write-capacity", 0)
    shown = row(talos, "table", "describe", table)
    assert (shown["read_capacity"], shown["write_capacity"]) == (700, None)


def test_removing_a_missing_name_is_an_error(talos: Commands) -> None:
    table = made(talos, "sparse")
    for option, expected in (
        ("--remove-column", "no column 'odd'; it has k, n"),
        ("--drop-index", "no index 'odd'; it has none"),
        ("--forbid", "no principal with rights 'odd'; it has none"),
    ):
        assert expected in talos("table", "alter", table, option, "odd", status=2).err


def test_a_table_from_a_schema_file(talos: Commands) -> None:
    schema = {"key": ["k"], "columns": {"k": "string", "n": "int32"}}
    (talos.folder / "schema.json").write_text(json.dumps(schema))
    talos("table", "create", "filed", "--schema", "schema.json", "--column", "x:double")
    assert row(talos, "table", "describe", "filed")["columns"] == {
        "k": "string", "n": "int32", "x": "double",
    }  # fmt: skip


def test_rows_are_written_read_and_removed(talos: Commands) -> None:
    table = made(talos, "rows")
    assert talos("table", "put", table, "k=a", "n=1").out == "written\n"
    assert row(talos, "table", "get", table, "k=a") == {"k": "a", "n": 1}
    assert row(talos, "table", "increment", table, "k=a", "--by", "n=2") == {"n": 3}
    talos("table", "put", table, '{"k": "a", "n": 4}', "--if", "n = 3")
    refused = talos.fails("table", "put", table, "k=a", "n=5", "--if", "n = 3")
    assert refused == "talos: not written: the condition does not hold"
    talos.fails("table", "put", table, "k=a", "--if-absent")
    talos.fails("table", "remove", table, "k=b", "--if-exists")
    assert row(talos, "table", "get", table, "k=a", "--column", "n") == {"n": 4}
    talos("table", "remove", table, "k=a", "--column", "n")
    assert "n" not in row(talos, "table", "get", table, "k=a")
    talos("table", "remove", table, "k=a")
    assert talos.fails("table", "get", table, "k=a") == f"talos: row not found in table {table}"


def test_rows_are_read_from_lines_and_written_to_lines(talos: Commands) -> None:
    table = made(talos, "lines")
    lines = "".join(f'{{"k": "{number:04}", "n": {number}}}\n' for number in range(1_200))
    assert talos("table", "put", table, "-", stdin=lines).out == "1200 rows written\n"
    found = talos("table", "scan", table, "--all", "--format", "json")
    assert [item["n"] for item in found.rows] == list(range(1_200))
    assert len(talos("table", "scan", table, "--format", "json").rows) == 100
    part = talos("table", "scan", table, "--from", "k=0010", "--to", "k=0013", "--format", "tsv")
    assert part.out.splitlines() == ["k\tn", "0010\t10", "0011\t11", "0012\t12"]
    some = talos("table", "scan", table, "--where", "n > 1197", "--all", "--column", "n")
    assert some.out.split() == ["N", "1198", "1199"]
    back = talos("table", "scan", table, "--reverse", "--limit", 2, "--format", "json").rows
    assert [item["n"] for item in back] == [1_199, 1_198]
    bad = talos.fails("table", "put", table, "-", stdin='{"k": "x"}\n{"k": "y", "n": 1.5}\n')
    assert "column n must be int32" in bad
    assert "0 rows written" in bad


def test_errors_name_the_remedy(talos: Commands) -> None:
    table = made(talos, "helpful")
    assert "did you mean helpful?" in talos.fails("table", "describe", "helpfull")
    assert "it has k, n" in talos("table", "put", table, "k=a", "m=1", status=2).err
    assert "column n has type int32" in talos("table", "put", table, "k=a", "n=x", status=2).err
    talos("table", "disable", table, "--yes")
    assert f"talos table enable {table}" in talos.fails("table", "scan", table)
    talos("table", "enable", table)
    nothing = talos.fails("table", "stream", "enable", table, "no-such-topic")
    assert "no-such-topic" in nothing
    assert "'k' is not NAME:TYPE" in talos("table", "create", "x", "--key", "k", status=2).err


def test_a_stream_is_enabled_followed_and_disabled(talos: Commands) -> None:
    topic, table = talos.topic("changes", 2), made(talos, "streamed")
    talos("table", "put", table, "k=before", "n=0")
    assert "changes" in talos("table", "stream", "enable", table, topic).out
    for number in range(3):
        talos("table", "put", table, f"k={number}", f"n={number}")
    talos.wait_for(topic, 3)
    (listed,) = talos("table", "stream", "list", table, "--format", "json").rows
    assert (listed["topic"], listed["state"], listed["view"]) == (topic, "running", "mutate-log")
    mark = eventually(
        "the stream has a mark",
        lambda: row(talos, "table", "stream", "status", table, topic)["mark"],
        state=lambda: talos("table", "stream", "status", table, topic),
    )
    assert sum(mark["offsets"].values()) >= 3
    assert "complete until:" in talos("table", "stream", "status", table, topic).out
    refused = talos.fails("table", "alter", table, "--remove-column", "n")
    assert "stream" in refused
    talos("table", "stream", "when-full", table, "gap")
    assert row(talos, "table", "stream", "status", table, topic)["when_full"] == "gap"
    talos("table", "stream", "disable", table, topic, "--yes")
    assert row(talos, "table", "stream", "status", table, topic)["state"] == "disabled"
    talos("table", "put", table, "k=after", "n=9")
    talos("table", "stream", "enable", table, topic, "--view", "keys-only")
    talos("table", "put", table, "k=again", "n=9")
    talos.wait_for(topic, 4)
    assert talos.stored(topic) == 4
    talos("table", "drop", table, "--yes")
    assert talos.stored(topic) == 4


VIEWS = ("mutate-log", "record-image", "keys-only")


def test_changes_are_shown_to_people_and_programs_in_every_view(talos: Commands) -> None:
    table = made(talos, "watched", "--column", "s:string", "--column", "b:binary")
    topics = {view: talos.topic(f"watched-{view}", 1) for view in VIEWS}
    for view, topic in topics.items():
        talos("table", "stream", "enable", table, topic, "--view", view)
    talos("table", "put", table, '{"k": "a", "n": 1, "s": "x y", "b": "/w=="}')
    talos("table", "increment", table, "k=a", "--by", "n=4")
    talos("table", "remove", table, "k=a", "--column", "s")
    talos("table", "remove", table, "k=a")
    for topic in topics.values():
        talos.wait_for(topic, 4)
    log = talos("table", "follow", table, topics["mutate-log"], "--format", "json").rows
    assert [item["kind"] for item in log] == ["put", "increment", "remove", "remove"]
    assert [item["sequence"] for item in log] == [1, 2, 3, 4]
    assert [item["offset"] for item in log] == [0, 1, 2, 3]
    assert log[0]["columns"] == {"n": 1, "s": "x y", "b": "/w=="}
    assert (log[1]["columns"], log[1]["amounts"]) == ({"n": 5}, {"n": 4})
    assert [item["row_deleted"] for item in log] == [False, False, False, True]
    assert all(item["key"] == {"k": "a"} for item in log)
    images = talos("table", "follow", table, topics["record-image"], "--format", "json").rows
    assert [image["columns"].get("n") for image in images] == [1, 5, 5, None]
    keys = talos("table", "follow", table, topics["keys-only"], "--format", "json").rows
    assert [key["kind"] for key in keys] == ["change"] * 4
    lines = talos("table", "follow", table, topics["mutate-log"]).out.splitlines()
    shown = ["  ".join(line.split("  ")[1:]) for line in lines]
    assert shown == [
        '0:0  #1  put        k="a"  n=1 s="x y" b="/w=="',
        '0:1  #2  increment  k="a"  n=5  n+4',
        '0:2  #3  remove     k="a"  -s',
        '0:3  #4  remove     k="a"',
    ]
    some = talos("table", "follow", table, topics["keys-only"], "-n", 2, "--format", "tsv").out
    header, *rest = some.splitlines()
    assert header.split("\t")[:5] == ["partition", "offset", "timestamp_ms", "sequence", "kind"]
    assert [line.split("\t")[5] for line in rest] == ['{"k": "a"}'] * 2
    refused = talos("table", "follow", table, status=2).err
    assert (
        "watched has several streams or none; pass TOPIC; it has: watched-keys-only, watched-m"
        in refused
    )
    assert "no stream to other" in talos("table", "follow", table, "other", status=2).err


def test_a_reader_names_the_owner_of_the_table(talos: Commands) -> None:
    topic, table = talos.topic("lent-changes", 1), made(talos, "lent")
    talos("table", "stream", "enable", table, topic)
    talos("table", "put", table, "k=a", "n=1")
    talos.wait_for(topic, 1)
    key = row(talos, "user", "create", "borrower")
    as_reader = ("--as", f"{key['key_id']}:{key['secret']}", "--format", "json")
    talos.fails("table", "follow", f"root/{table}", *as_reader)
    talos("table", "alter", table, "--allow", "borrower:app-read")
    talos("acl", "grant", topic, "borrower", "get", "describe")
    (change,) = talos("table", "follow", f"root/{table}", *as_reader).rows
    assert change["columns"] == {"n": 1}
    (same,) = talos("table", "follow", f"root/{table}", f"root/{topic}", *as_reader).rows
    assert same == change
    config = ClientConfig(endpoints=(talos.server.url,), key_id=key["key_id"], secret=key["secret"])
    with TableFollower(config, f"root/{table}", f"root/{topic}") as follower:
        talos("table", "put", table, "k=b", "n=2")
        follower.catch_up()
        assert sorted(str(item["k"]) for item in follower.replica.rows()) == ["a", "b"]


def test_a_message_that_is_not_a_change_is_shown_as_bad(talos: Commands) -> None:
    topic, table = talos.topic("spoilt-changes", 1), made(talos, "spoilt")
    talos("produce", topic, stdin="no change at all\n")
    talos("table", "stream", "enable", table, topic)
    talos("table", "put", table, "k=a", "n=1")
    talos.wait_for(topic, 2)
    bad, good = talos("table", "follow", table, "--format", "json").rows
    assert (bad["kind"], bad["offset"]) == ("bad", 0)
    assert "is not a change" in bad["error"]
    assert good["columns"] == {"n": 1}
    first, second = talos("table", "follow", table).out.splitlines()
    assert first.startswith("0:0  bad  spoilt-changes[0] offset 0 is not a change")
    assert 'k="a"' in second


def test_rights_are_granted_and_revoked(talos: Commands) -> None:
    table = made(talos, "shared")
    key = row(talos, "user", "create", "reader")
    as_reader = ("--as", f"{key['key_id']}:{key['secret']}")
    talos.fails("table", "scan", f"root/{table}", *as_reader)
    talos("table", "alter", table, "--allow", "reader:app-read")
    talos("table", "scan", f"root/{table}", *as_reader)
    talos.fails("table", "put", f"root/{table}", "k=a", *as_reader)
    assert f"write root/{table}, or accept" in talos.fails("table", "scan", table, *as_reader)
    talos("table", "accept", f"root/{table}", *as_reader)
    talos("table", "scan", table, *as_reader)
    talos("table", "decline", table, *as_reader)
    talos.fails("table", "scan", table, *as_reader)
    talos("table", "alter", table, "--forbid", "reader")
    talos.fails("table", "scan", f"root/{table}", *as_reader)


def test_large_rows_are_sent_in_several_requests(talos: Commands) -> None:
    table = made(talos, "large", "--column", "s:string")
    lines = "".join(json.dumps({"k": str(k), "s": "x" * 100_000}) + "\n" for k in range(20))
    assert talos("table", "put", table, "-", stdin=lines).out == "20 rows written\n"
    found = talos("table", "scan", table, "--all", "--format", "json").rows
    assert {len(item["s"]) for item in found} == {100_000}
    assert len(found) == 20
