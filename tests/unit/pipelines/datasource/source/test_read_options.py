"""Options of a read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import ConfigError, InvalidName
from opentalos.pipelines.datasource import TalosDataSource
from opentalos.pipelines.datasource.connection import connection
from opentalos.pipelines.datasource.source.columns import DEFAULT_COLUMNS
from opentalos.pipelines.datasource.source.options import (
    TRIGGER_DELAY_S,
    check_before_schema,
    chosen_columns,
    read_options,
)
from opentalos.pipelines.datasource.source.start_at import Edge, parse_start_at

SERVER = {"url": "http://h:1,http://g:2", "key": "ID:SECRET"}
TOPIC = {**SERVER, "topic": "clicks"}


def test_the_least_that_is_needed() -> None:
    found = read_options(TOPIC, streaming=True)
    assert found.config.endpoints == ("http://h:1", "http://g:2")
    assert (found.config.key_id, found.config.secret) == ("ID", "SECRET")
    assert (found.topics, found.start, found.end) == (("clicks",), Edge.EARLIEST, Edge.LATEST)
    assert (found.group, found.messages_max, found.skip_expired) == ("", None, False)
    assert found.tasks >= 1


def test_names_of_options_have_any_case() -> None:
    given = {**SERVER, "TOPICPATTERN": "a.*", "MaxMessagesPerTrigger": "7", "onexpired": "SKIP"}
    found = read_options(given, streaming=True)
    assert found.pattern is not None
    assert found.pattern.fullmatch("abc")
    assert (found.messages_max, found.skip_expired) == (7, True)


@matrix(
    ("given", "text"),
    [
        (SERVER, "give one of the options topic, topics, topicPattern; found none"),
        ({**TOPIC, "topics": "a"}, "found topic and topics"),
        ({**SERVER, "topics": "a,b,a"}, "each once"),
        ({**SERVER, "topics": ","}, "give names, each once"),
        ({**SERVER, "topicPattern": "("}, "not a regular expression"),
        ({**TOPIC, "startingOffsets": "earliest"}, "no option 'startingoffsets'"),
        ({**TOPIC, "startingPosition": "soon"}, "give earliest, latest, group"),
        ({**TOPIC, "startingPosition": "2026-01-01T00:00:00"}, "a time without a zone"),
        ({**TOPIC, "startingPosition": '{"a": {"0": "x"}}'}, "'x' is not an offset"),
        ({**TOPIC, "startingPosition": '{"a": {"0": -1}}'}, "-1 is not an offset"),
        ({**TOPIC, "startingPosition": '{"a": {"x": 1}}'}, "startingPosition is invalid"),
        ({**TOPIC, "startingPosition": '{"a": 1}'}, "startingPosition is invalid"),
        ({**TOPIC, "startingPosition": "{"}, "startingPosition is invalid"),
        ({**TOPIC, "startingPosition": "group"}, "needs the option group"),
        ({**TOPIC, "group": "no such name!"}, "invalid consumer group"),
        ({**TOPIC, "onExpired": "ignore"}, "fail or skip"),
        ({**TOPIC, "tasks": "0"}, "tasks is '0': give a whole number above 0"),
        ({**TOPIC, "tasks": "99999"}, "at most 10000"),
        ({**TOPIC, "path": "other"}, "given twice, as the path 'other' and as the option topic"),
        ({**SERVER, "path": ""}, "give names, each once"),
        ({}, "found none; a table of Spark's catalog passes none, use a temporary view"),
        ({**TOPIC, "minMessagesPerTrigger": "0"}, "minMessagesPerTrigger is '0'"),
        ({**TOPIC, "maxBytesPerTrigger": "64m"}, "maxBytesPerTrigger is '64m'"),
        ({**TOPIC, "maxTriggerDelaySeconds": "5"}, "needs the option minMessagesPerTrigger"),
        (
            {**TOPIC, "minMessagesPerTrigger": "9", "maxMessagesPerTrigger": "8"},
            "minMessagesPerTrigger is 9: give at most maxMessagesPerTrigger, 8",
        ),
        ({**TOPIC, "timeoutSeconds": "soon"}, "timeoutSeconds is 'soon': give a whole number"),
        ({**TOPIC, "key": "nocolon"}, "ID:SECRET"),
        ({**TOPIC, "url": "h:1"}, "http://host:port"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises((ConfigError, InvalidName), match=text):
        read_options(given, streaming=True)


def test_a_stream_has_no_end_and_a_batch_no_triggers() -> None:
    with pytest.raises(ConfigError, match="a stream of talos has no option 'endingposition'"):
        read_options({**TOPIC, "endingPosition": "latest"}, streaming=True)
    with pytest.raises(ConfigError, match="a batch read of talos has no option"):
        read_options({**TOPIC, "maxMessagesPerTrigger": "5"}, streaming=False)
    with pytest.raises(ConfigError, match="a batch read of talos has no option"):
        read_options({**TOPIC, "maxBytesPerTrigger": "5"}, streaming=False)
    with pytest.raises(ConfigError, match="a batch read of talos has no option"):
        read_options({**TOPIC, "minMessagesPerTrigger": "5"}, streaming=False)
    with pytest.raises(ConfigError, match="a stream of talos has no option 'partitions'"):
        read_options({**TOPIC, "partitions": "0"}, streaming=True)
    with pytest.raises(ConfigError, match="endingPosition cannot be group"):
        read_options({**TOPIC, "endingPosition": "group", "group": "g"}, streaming=False)


def test_columns_are_chosen_by_name() -> None:
    assert chosen_columns({}) == DEFAULT_COLUMNS
    assert chosen_columns({"columns": "value, sequence_number"}) == ("value", "sequence_number")
    with pytest.raises(ConfigError, match="unknown column 'data'; known: topic,"):
        chosen_columns({"columns": "data"})
    with pytest.raises(ConfigError, match="each once"):
        chosen_columns({"columns": "value,value"})


def test_places_are_words_times_or_offsets() -> None:
    assert parse_start_at("x", " Latest ") is Edge.LATEST
    assert parse_start_at("x", "2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_start_at("x", '{"a": {"0": 5, "11": 0}}') == {"a": {0: 5, 11: 0}}


def test_the_server_is_found_as_the_sdk_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TALOS_URL", "http://env:1")
    monkeypatch.setenv("TALOS_KEY", "E:NV")
    assert connection({}).endpoints == ("http://env:1",)
    mixed = connection({"url": "http://given:2", "timeoutSeconds": "7"})
    assert (mixed.endpoints, mixed.key_id, mixed.deadline_s) == (("http://given:2",), "E", 7.0)

    monkeypatch.delenv("TALOS_URL")
    monkeypatch.delenv("TALOS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="no profile file"):
        connection({})
    file = tmp_path / ".config" / "opentalos" / "profiles.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        'default = "one"\n'
        '[profiles.one]\nendpoints = ["http://one:1"]\nkey = "A:B"\n'
        '[profiles.two]\nendpoints = ["http://two:1"]\nkey = "C:D"\n'
    )
    assert connection({}).endpoints == ("http://one:1",)
    named = connection({"profile": "two", "key": "E:F"})
    assert (named.endpoints, named.key_id) == (("http://two:1",), "E")


def test_the_key_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("ID:SECRET\n")
    given = {"url": "http://h:1", "keyFile": str(file)}
    assert (connection(given).key_id, connection(given).secret) == ("ID", "SECRET")
    assert read_options({**given, "topic": "clicks"}, streaming=True).config.secret == "SECRET"
    with pytest.raises(ConfigError, match="key and keyFile both give a key"):
        connection({**given, "key": "A:B"})
    with pytest.raises(ConfigError, match=r"cannot read key file .*absent"):
        connection({**given, "keyFile": str(tmp_path / "absent")})


def test_deleted_topics_are_dropped_only_by_a_pattern() -> None:
    pattern = {name: text for name, text in TOPIC.items() if name != "topic"}
    pattern["topicPattern"] = "a.*"
    assert not read_options(pattern, streaming=True).drop_deleted
    assert read_options({**pattern, "onDeleted": "drop"}, streaming=True).drop_deleted
    with pytest.raises(ConfigError, match="onDeleted is 'skip': choose fail or drop"):
        read_options({**pattern, "onDeleted": "skip"}, streaming=True)
    with pytest.raises(ConfigError, match="onDeleted = drop needs topicPattern"):
        read_options({**TOPIC, "onDeleted": "drop"}, streaming=True)


def test_a_path_is_the_topic() -> None:
    assert read_options({**SERVER, "path": "o/clicks"}, streaming=True).topics == ("o/clicks",)
    assert read_options({**SERVER, "PATH": "clicks"}, streaming=False).topics == ("clicks",)


def test_partitions_of_a_batch_are_chosen_by_number() -> None:
    assert read_options(TOPIC, streaming=False).partitions is None
    found = read_options({**TOPIC, "partitions": "0, 11"}, streaming=False)
    assert found.partitions == frozenset((0, 11))
    for text in ("", "0-3", "first"):
        with pytest.raises(ConfigError, match="give numbers such as 0,3"):
            read_options({**TOPIC, "partitions": text}, streaming=False)


def test_the_smallest_trigger_has_a_delay() -> None:
    least = {**TOPIC, "minMessagesPerTrigger": "100"}
    found = read_options(least, streaming=True)
    assert (found.messages_min, found.trigger_delay_s) == (100, TRIGGER_DELAY_S)
    given = {
        **least,
        "maxTriggerDelaySeconds": "7",
        "maxMessagesPerTrigger": "100",
        "maxBytesPerTrigger": "1048576",
    }
    assert read_options(given, streaming=True).bytes_max == 1 << 20
    assert read_options(given, streaming=True).trigger_delay_s == 7
    assert read_options(TOPIC, streaming=True).messages_min == 0
    assert read_options(TOPIC, streaming=True).bytes_max is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({**TOPIC, "provider": "talos", "option.topic": "clicks"}, "CREATE TEMPORARY VIEW"),
        (SERVER, "found none"),
        ({**TOPIC, "colour": "red"}, "a read of talos has no option 'colour'"),
    ],
)
def test_a_table_and_a_wrong_option_are_refused_when_they_are_created(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        check_before_schema(given)
    with pytest.raises(ConfigError, match=text):
        TalosDataSource(given).schema()


def test_options_of_batches_and_of_streams_have_the_schema() -> None:
    for name in ("endingPosition", "partitions", "maxMessagesPerTrigger", "onDeleted"):
        source = TalosDataSource({**SERVER, "path": "clicks", "columns": "value", name: "any"})
        assert source.schema().names == ["value"]
