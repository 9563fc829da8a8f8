"""The options of a read, checked. The only I/O is the SDK's profile file."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from opentalos.model.errors import ConfigError
from opentalos.model.names import check_group_name
from opentalos.pipelines.datasource.connection import (
    connection,
    lowered,
    path_as_topic,
    refuse_unknown,
    whole_number,
)
from opentalos.pipelines.datasource.source.columns import DEFAULT_COLUMNS, check_columns
from opentalos.pipelines.datasource.source.start_at import Edge, StartAt, parse_start_at
from opentalos.sdk.core.config import ClientConfig

_EITHER: Final = (
    "url", "key", "keyFile", "profile", "timeoutSeconds", "topic", "topics", "topicPattern",
    "columns", "startingPosition", "group", "onExpired", "tasks",
)  # fmt: skip
_BATCH: Final = (*_EITHER, "endingPosition", "partitions")
_STREAM: Final = (
    *_EITHER, "maxMessagesPerTrigger", "maxBytesPerTrigger", "minMessagesPerTrigger",
    "maxTriggerDelaySeconds", "onDeleted",
)  # fmt: skip
_OF_A_TABLE: Final = "provider"  # Spark adds it to the options of a table of a catalog
TASKS_MAX: Final = 10_000  # input partitions of one batch
TRIGGER_DELAY_S: Final = 900  # the default of Spark's Kafka connector


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read."""

    config: ClientConfig
    topics: tuple[str, ...]  # names; empty: all that match the pattern
    pattern: re.Pattern[str] | None
    start: StartAt
    end: StartAt  # of a batch
    group: str  # "": progress is not committed
    partitions: frozenset[int] | None  # of a batch; None: all
    messages_max: int | None  # of a trigger
    bytes_max: int | None  # of a trigger, about: of decompressed messages
    messages_min: int  # of a trigger; 0: any number
    trigger_delay_s: int  # after which a trigger reads fewer
    skip_expired: bool
    drop_deleted: bool  # a stream by pattern continues without topics that are deleted
    tasks: int  # input partitions of a batch, at most


def chosen_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the read. Raises: ConfigError."""
    text = lowered(options).get("columns")
    return DEFAULT_COLUMNS if text is None else check_columns(_listed(text))


def check_before_schema(options: Mapping[str, str]) -> None:
    """Refuse a read when its frame or view is created, before Spark knows of batch or stream.

    Raises: ConfigError: it is a table of a catalog, of which Spark passes no options to the reads;
    or no topic is given, or an option is unknown.
    """
    given = lowered(options)
    if _OF_A_TABLE in given:
        raise ConfigError(
            "a topic cannot be a table of Spark's catalog: Spark does not pass the table's options "
            "to its reads; use CREATE TEMPORARY VIEW name USING talos OPTIONS (topic 'clicks')"
        )
    given = path_as_topic(given)
    refuse_unknown(given, tuple(dict.fromkeys((*_BATCH, *_STREAM))), "a read")
    _topics(given)


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a read. Raises: ConfigError: one is unknown, missing or invalid."""
    given = path_as_topic(lowered(options))
    known = _STREAM if streaming else _BATCH
    refuse_unknown(given, known, "a stream" if streaming else "a batch read")
    topics, pattern = _topics(given)
    group = given.get("group", "")
    if group:
        check_group_name(group)
    start = parse_start_at("startingPosition", given.get("startingposition", "earliest"))
    end = parse_start_at("endingPosition", given.get("endingposition", "latest"))
    if start is Edge.GROUP and not group:
        raise ConfigError("startingPosition = group needs the option group")
    if end is Edge.GROUP:
        raise ConfigError("endingPosition cannot be group")
    skip_expired = _chosen(given, "onExpired", "skip")
    drop_deleted = _chosen(given, "onDeleted", "drop")
    if drop_deleted and pattern is None:
        raise ConfigError("onDeleted = drop needs topicPattern: a topic that is named must exist")
    most, bytes_max, least, delay_s = _trigger(given)
    return ReadOptions(
        # Replies have 10 MiB; a query starts sooner without the libraries of asyncio's transport.
        config=replace(connection(given), threaded=True),
        topics=topics,
        pattern=pattern,
        start=start,
        end=end,
        group=group,
        partitions=_partitions(given.get("partitions")),
        messages_max=most,
        bytes_max=bytes_max,
        messages_min=least,
        trigger_delay_s=delay_s,
        skip_expired=skip_expired,
        drop_deleted=drop_deleted,
        tasks=_tasks(given.get("tasks")),
    )


def _trigger(given: Mapping[str, str]) -> tuple[int | None, int | None, int, int]:
    """Of a trigger: most messages, most bytes, fewest messages, and the delay in seconds."""
    most, bytes_max, least, delay = (
        whole_number(name, given[name.lower()]) if name.lower() in given else None
        for name in (
            "maxMessagesPerTrigger",
            "maxBytesPerTrigger",
            "minMessagesPerTrigger",
            "maxTriggerDelaySeconds",
        )
    )
    if least is None and delay is not None:
        raise ConfigError("maxTriggerDelaySeconds needs the option minMessagesPerTrigger")
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"minMessagesPerTrigger is {least}: give at most maxMessagesPerTrigger, {most}"
        )
    return most, bytes_max, least or 0, delay or TRIGGER_DELAY_S


def _partitions(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    numbers = _listed(text)
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise ConfigError(f"partitions is {text!r}: give numbers such as 0,3")
    return frozenset(map(int, numbers))


def _chosen(given: Mapping[str, str], name: str, other: str) -> bool:
    """Whether an option has its other value than ``fail``."""
    text = given.get(name.lower(), "fail").lower()
    if text not in ("fail", other):
        raise ConfigError(f"{name} is {text!r}: choose fail or {other}")
    return text == other


def _topics(given: Mapping[str, str]) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    ways = [name for name in ("topic", "topics", "topicPattern") if name.lower() in given]
    if len(ways) != 1:
        found = " and ".join(ways) or "none"
        if not given:  # a table that was created with columns, so that nobody could refuse it
            found += "; a table of Spark's catalog passes none, use a temporary view"
        raise ConfigError(f"give one of the options topic, topics, topicPattern; found {found}")
    text = given[ways[0].lower()]
    if ways == ["topicPattern"]:
        try:
            return (), re.compile(text)
        except re.error as error:
            raise ConfigError(
                f"topicPattern {text!r} is not a regular expression: {error}"
            ) from error
    names = _listed(text) if ways == ["topics"] else (text.strip(),)
    if not all(names) or not names or len(set(names)) < len(names):
        raise ConfigError(f"{ways[0]} is {text!r}: give names, each once")
    return tuple(names), None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _tasks(text: str | None) -> int:
    """The number of tasks; by default the number of processors of this machine."""
    if text is None:
        return os.cpu_count() or 1
    tasks = whole_number("tasks", text)
    if tasks > TASKS_MAX:
        raise ConfigError(f"tasks is {tasks}: give at most {TASKS_MAX}")
    return tasks
