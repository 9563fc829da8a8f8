"""produce and consume: round trips, pipes, formats, bad input, Ctrl-C."""

import json
import re
import signal
import subprocess
import time

import pytest
from tests.e2e.cli.conftest import Commands, interrupted
from tests.server_process import TALOS
from tests.waiting import eventually, limit_s, scale

from opentalos.sdk import ClientConfig


def test_lines_are_consumed_in_order(talos: Commands) -> None:
    topic = talos.topic("lines")
    lines = "".join(f"line {n} é\n" for n in range(5_000)) + "no end"
    assert talos("produce", topic, stdin=lines).err == "5001 messages stored\n"
    assert talos("consume", topic).out == lines + "\n"


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_every_compression(talos: Commands, compression: str) -> None:
    topic = talos.topic(f"compressed-{compression}")
    talos("produce", topic, "--compression", compression, stdin="a\n" * 100)
    assert talos("consume", topic).out == "a\n" * 100


def test_keys_and_partitions(talos: Commands) -> None:
    topic = talos.topic("keyed", 4)
    talos("produce", topic, "--key-separator", ":", stdin="a:1\nb:2\na:3\nplain\n")
    rows = talos("consume", topic, "--format", "json").rows
    of_a = [row for row in rows if row.get("key") == "a"]
    assert [row["text"] for row in of_a] == ["1", "3"]
    assert len({row["partition"] for row in of_a}) == 1
    assert [row["text"] for row in rows if "key" not in row] == ["plain"]
    talos("produce", topic, "--partition", 3, "--key-separator", ":", stdin="a:4\n")
    last = talos("consume", topic, "--partition", 3, "--format", "json").rows[-1]
    assert (last["text"], last["key"]) == ("4", "a")


def test_json_lines_copy_a_topic_with_bytes_keys_and_tags(talos: Commands) -> None:
    source, copy = talos.topic("source"), talos.topic("copied")
    sent = [
        {"base64": "/wA=", "key": "k"},
        {"text": "a\tb\n", "tag": "blue", "create_ms": 5, "sequence_number": "s"},
        {"value": {"a": [1]}},
    ]
    lines = "".join(json.dumps(item) + "\n" for item in sent)
    talos("produce", source, "--format", "json", stdin=lines)
    talos.shell(f"talos consume {source} --format json - | talos produce {copy} --format json -")
    given, taken = (talos("consume", item, "--format", "json").rows for item in (source, copy))
    for row in (*given, *taken):
        del row["topic"], row["append_ms"]
    assert taken == given
    assert [row.get("base64") for row in taken] == ["/wA=", None, None]
    assert taken[2]["text"] == '{"a":[1]}'


def test_formats(talos: Commands) -> None:
    topic = talos.topic("formats")
    talos("produce", topic, "--key-separator", "=", stdin="k=a\tb\n")
    assert (
        talos("consume", topic, "-o", "%t[%p]@%o %k:%s (%S)\\n").out == "formats[0]@0 k:a\tb (3)\n"
    )
    head, row = talos("consume", topic, "--format", "tsv").out.splitlines()
    assert head.split("\t") == ["partition", "offset", "append_ms", "key", "data"]
    assert row.split("\t")[3:] == ["k", "a\\tb"]


def test_the_start_position(talos: Commands) -> None:
    topic = talos.topic("places")
    talos("produce", topic, stdin="0\n1\n2\n3\n")
    assert talos("consume", topic, "--from", 2).out == "2\n3\n"
    assert talos("consume", topic, "--from", "end").out == ""
    assert talos("consume", topic, "--from", "1h", "--count", 1).out == "0\n"
    assert talos("consume", topic, "--from", "1960-01-01", "--count", 1).out == "0\n"
    assert talos("consume", topic, "--from", "@4102444800").out == ""
    said = talos.fails("consume", topic, "--from", 9)
    assert "offset 9 of places[0] is not retained: retained offsets are 0 to 4; " in said
    assert "--from start" in said


def test_follow_waits_for_messages_and_ctrl_c_reports_the_count(talos: Commands) -> None:
    topic = talos.topic("followed", 2)
    talos("produce", topic, stdin="old\n")
    reader = talos.start("consume", topic, "--follow", "--from", "start")
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"old\n"
    talos("produce", topic, stdin="new\n")
    assert reader.stdout.readline() == b"new\n"
    ended = interrupted(reader)
    assert (ended.status, ended.out) == (130, "")
    assert ended.err == "talos: interrupted; 2 messages written"


def test_a_group_resumes_after_an_interrupt(talos: Commands) -> None:
    topic = talos.topic("resumed")
    talos("produce", topic, stdin="a\nb\n")
    reader = talos.start("consume", topic, "--group", "g", "--follow")
    assert reader.stdout is not None
    assert [reader.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
    ended = interrupted(reader)
    assert (ended.status, ended.err) == (130, "talos: interrupted; 2 messages written")
    assert talos("group", "describe", topic, "g", "--format", "json").rows[0]["checkpoint"] == 1
    talos("produce", topic, stdin="c\nd\n")
    assert talos("consume", topic, "--group", "g", "--count", 1).out == "c\n"
    assert talos("consume", topic, "--group", "g", "--idle", 2 * scale()).out == "d\n"


def test_a_closed_pipe_ends_the_command_quietly(talos: Commands) -> None:
    topic = talos.topic("head")
    talos("produce", topic, stdin="".join(f"{n:0100}\n" for n in range(20_000)))
    ended = talos.shell(f"talos consume {topic} | head -n 1")
    assert (ended.out, ended.err) == (f"{0:0100}\n", "")


def test_ctrl_c_during_a_large_output_cuts_no_line(talos: Commands) -> None:
    topic = talos.topic("cut")
    line = "x" * 999
    talos("produce", topic, stdin=f"{line}\n" * 20_000)
    path = talos.folder / "out"
    with path.open("wb") as out:
        process = subprocess.Popen(
            [str(TALOS), "consume", topic, "--follow", "--from", "start"],
            stdout=out, stderr=subprocess.PIPE, env=talos.variables(), cwd=talos.folder,
        )  # fmt: skip
    eventually("the output begins", lambda: path.stat().st_size)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=limit_s())
    assert process.returncode == 130
    text = path.read_text()
    assert set(text.splitlines()) == {line}
    assert text.endswith("\n")
    assert err.decode() == f"talos: interrupted; {len(text) // 1_000} messages written\n"


def test_ctrl_c_while_producing_stores_what_was_read(talos: Commands) -> None:
    topic = talos.topic("stopped")
    writer = talos.start("produce", topic)
    assert writer.stdin is not None
    writer.stdin.write(b"1\n2\n3\nhalf a li")
    writer.stdin.flush()
    talos.wait_for(topic, 3)
    ended = interrupted(writer)
    assert (ended.status, ended.err) == (130, "talos: interrupted; 3 messages stored")
    assert talos("consume", topic).out == "1\n2\n3\n"


def test_a_bad_line_stops_and_preceding_lines_are_stored(talos: Commands) -> None:
    topic = talos.topic("badline")
    said = talos.fails("produce", topic, "--format", "json", stdin='{"text": "a"}\n{"txt": 1}\n')
    assert (
        "line 2: unknown field 'txt'; stopped here, later lines were not sent; 1 message stored"
        in said
    )
    assert talos("consume", topic).out == "a\n"


def test_a_missing_partition_is_reported(talos: Commands) -> None:
    topic = talos.topic("narrow")
    for command in (("produce", topic, "--partition", 7), ("consume", topic, "--partition", 7)):
        assert re.search(r"narrow has .*\b7\b", talos.fails(*command, stdin="a\n"))


@pytest.mark.parametrize("command", [("produce", "absent"), ("table", "put", "absent", "-")])
def test_input_without_lines_does_not_hide_that_its_target_is_missing(
    talos: Commands, command: tuple[str, ...]
) -> None:
    assert "absent does not exist" in talos.fails(*command, stdin="")


def test_input_without_lines_is_no_error_where_there_is_a_topic(talos: Commands) -> None:
    assert talos("produce", talos.topic("unfilled"), stdin="").err == "0 messages stored\n"
    said = talos.fails("produce", "unfilled", "--partition", 1, stdin="")
    assert "topic unfilled has no partition 1: it has 1 partition" in said


@pytest.mark.parametrize(
    "command", [("produce",), ("consume",), ("topic", "describe"), ("group", "list")]
)
def test_an_unknown_topic_suggests_similar_names(talos: Commands, command: tuple[str, ...]) -> None:
    if "payments" not in talos("topic", "list").out:
        talos.topic("payments")
    said = talos.fails(*command, "paymets", stdin="a\n")
    assert "topic paymets does not exist" in said
    assert "did you mean payments" in said


@pytest.mark.parametrize(
    "command", [("produce", "t"), ("consume", "t"), ("topic", "list"), ("group", "list", "t")]
)
def test_a_wrong_key_is_reported(talos: Commands, command: tuple[str, ...]) -> None:
    said = talos.fails(*command, "--as", "AKWRONG:secret", stdin="a\n")
    assert "unknown key or wrong signature" in said
    assert "check the key AKWRONG (--as, --profile, TALOS_KEY)" in said
    assert "secret" not in said


@pytest.mark.parametrize("command", [("produce", "t"), ("consume", "t"), ("topic", "list")])
def test_an_unreachable_server_is_reported_immediately(
    talos: Commands, command: tuple[str, ...]
) -> None:
    nowhere = ClientConfig(endpoints=("http://127.0.0.1:1",), key_id="k", secret="s")
    began_s = time.monotonic()
    said = talos.fails(*command, "--url", "http://127.0.0.1:1", stdin="a\n")
    assert "cannot reach http://127.0.0.1:1: Connection refused; is the server running" in said
    # An SDK alone would try until its deadline.
    assert time.monotonic() - began_s < nowhere.deadline_s  # the claim is about time


@pytest.mark.parametrize(
    "command", ["consume full", "consume full --format json", "topic list", "topic describe full"]
)
def test_a_full_disk_is_one_error_line(talos: Commands, command: str) -> None:
    if "full" not in talos("topic", "list").out.split():
        talos.topic("full")
        talos("produce", "full", stdin="a\n" * 10)
    ended = talos.shell(f"talos {command} > /dev/full", status=1)
    assert ended.err == "talos: cannot write the output: No space left on device\n"


def test_a_server_crash_while_producing_reports_the_outcomes(own: Commands) -> None:
    topic = own.topic("t")
    writer = own.start("produce", topic, "--timeout", 6)
    assert writer.stdin is not None
    writer.stdin.write(b"1\n2\n")
    writer.stdin.flush()
    own.wait_for(topic, 2)
    own.server.kill()
    out, err = writer.communicate(b"3\n4\n5\n", timeout=limit_s())
    assert (writer.returncode, out) == (1, b"")
    assert b"Traceback" not in err
    said = err.decode().strip()
    assert "\n" not in said
    assert re.search(r"2 messages stored, 3 (not stored|unknown)", said), said
    own.server.start()
    assert own("consume", topic).out == "1\n2\n"


def test_lines_are_stored_once_despite_a_server_crash(own: Commands) -> None:
    topic = own.topic("t")
    writer = own.start("produce", topic, "--idempotent", "yes")
    assert writer.stdin is not None
    lines = [b"%d\n" % number for number in range(20_000)]
    writer.stdin.write(b"".join(lines[:10_000]))
    writer.stdin.flush()
    own.wait_for(topic, 1)
    own.server.kill()
    own.server.start()
    _, err = writer.communicate(b"".join(lines[10_000:]), timeout=limit_s())
    assert (writer.returncode, err) == (0, b"20000 messages stored\n")
    assert own("consume", topic).out.encode() == b"".join(lines)
