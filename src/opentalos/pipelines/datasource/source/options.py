"""The options of a read, checked. The only I/O is the SDK's profile file."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import ConfigError
from opentalos.model.names import check_name
from opentalos.pipelines.datasource.connection import (
    connection,
    lowered,
    refuse_unknown,
    whole_number,
)
from opentalos.pipelines.datasource.source.columns import DEFAULT_COLUMNS, check_columns
from opentalos.pipelines.datasource.source.start_at import Edge, StartAt, parse_start_at
from opentalos.sdk.core.config import ClientConfig

_EITHER: Final = (
    "url", "key", "profile", "timeoutSeconds", "topic", "topics", "topicPattern", "columns",
    "startingPosition", "group", "onExpired", "tasks",
)  # fmt: skip
_BATCH: Final = (*_EITHER, "endingPosition")
_STREAM: Final = (*_EITHER, "maxMessagesPerTrigger", "onDeleted")
TASKS_MAX: Final = 10_000  # input partitions of one batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read."""

    config: ClientConfig
    topics: tuple[str, ...]  # names; empty: all that match the pattern
    pattern: re.Pattern[str] | None
    start: StartAt
    end: StartAt  # of a batch
    group: str  # "": progress is not committed
    messages_max: int | None  # of a trigger
    skip_expired: bool
    drop_deleted: bool  # a stream by pattern continues without topics that are deleted
    tasks: int  # input partitions of a batch, at most


def chosen_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the read. Raises: ConfigError."""
    text = lowered(options).get("columns")
    return DEFAULT_COLUMNS if text is None else check_columns(_listed(text))


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a read. Raises: ConfigError: one is unknown, missing or invalid."""
    given = lowered(options)
    known = _STREAM if streaming else _BATCH
    refuse_unknown(given, known, "a stream" if streaming else "a batch read")
    topics, pattern = _topics(given)
    group = given.get("group", "")
    if group:
        check_name(group, "group")
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
    limit = given.get("maxmessagespertrigger")
    return ReadOptions(
        config=connection(given),
        topics=topics,
        pattern=pattern,
        start=start,
        end=end,
        group=group,
        messages_max=None if limit is None else whole_number("maxMessagesPerTrigger", limit),
        skip_expired=skip_expired,
        drop_deleted=drop_deleted,
        tasks=_tasks(given.get("tasks")),
    )


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
