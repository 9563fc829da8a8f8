"""What a user may say of a read, checked; no I/O but the profile file of the SDK."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from opentalos.model.errors import ConfigError
from opentalos.model.names import check_name
from opentalos.pipelines.datasource.source.columns import DEFAULT_COLUMNS, check_columns
from opentalos.pipelines.datasource.source.start_at import Edge, StartAt, parse_start_at
from opentalos.sdk.core.config import (
    KEY_VARIABLE,
    URL_VARIABLE,
    ClientConfig,
    split_key,
    split_urls,
)

_EITHER: Final = (
    "url", "key", "profile", "timeoutSeconds", "topic", "topics", "topicPattern", "columns",
    "startingPosition", "group", "onExpired", "tasks",
)  # fmt: skip
_BATCH: Final = (*_EITHER, "endingPosition")
_STREAM: Final = (*_EITHER, "maxMessagesPerTrigger")
TASKS_MAX: Final = 10_000  # input partitions of one batch
MESSAGES_MAX: Final = 1 << 40  # of a trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """A read as it was asked for."""

    config: ClientConfig
    topics: tuple[str, ...]  # names; empty: those that match the pattern
    pattern: re.Pattern[str] | None
    start: StartAt
    end: StartAt  # of a batch
    group: str  # "": progress goes nowhere
    messages_max: int | None  # of a trigger
    skip_expired: bool
    tasks: int  # input partitions of a batch, at most


def chosen_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns to build. Raises: ConfigError."""
    text = _lowered(options).get("columns")
    return DEFAULT_COLUMNS if text is None else check_columns(_listed(text))


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a read. Raises: ConfigError: one is unknown, missing or unusable."""
    given = _lowered(options)
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
    expired = given.get("onexpired", "fail").lower()
    if expired not in ("fail", "skip"):
        raise ConfigError(f"onExpired is fail or skip, not {expired!r}")
    limit = given.get("maxmessagespertrigger")
    return ReadOptions(
        config=connection(given),
        topics=topics,
        pattern=pattern,
        start=start,
        end=end,
        group=group,
        messages_max=None if limit is None else _number("maxMessagesPerTrigger", limit),
        skip_expired=expired == "skip",
        tasks=_tasks(given.get("tasks")),
    )


def connection(options: Mapping[str, str]) -> ClientConfig:
    """How to reach the servers: ``url``, ``key``, ``profile``, else as the SDK finds it.

    Resolved where the query is planned; tasks are sent the result.

    Raises: ConfigError: something is missing or unusable.
    """
    given = _lowered(options)
    settings: dict[str, Any] = {}
    if "timeoutseconds" in given:
        settings["deadline_s"] = float(_number("timeoutSeconds", given["timeoutseconds"]))
    if "profile" in given:
        found = ClientConfig.from_profile(given["profile"], **settings)
    else:
        named = {URL_VARIABLE: given.get("url"), KEY_VARIABLE: given.get("key")}
        known = {**os.environ, **{name: text for name, text in named.items() if text}}
        if known.get(URL_VARIABLE) or known.get(KEY_VARIABLE):
            return ClientConfig.from_environment(known, **settings)
        found = ClientConfig.from_profile(**settings)
    if "url" in given:
        found = replace(found, endpoints=split_urls(given["url"]))
    if "key" in given:
        key_id, secret = split_key(given["key"], "the option key")
        found = replace(found, key_id=key_id, secret=secret)
    return found


def refuse_unknown(given: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
    """Raises: ConfigError: an option is none of ``known``. ``given``: names in lower case."""
    names = {name.lower() for name in known}
    for name in given:
        if name not in names:
            shown = ", ".join(sorted(known))
            raise ConfigError(f"{what} of talos has no option {name!r}; it has {shown}")


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in options.items()}


def _topics(given: Mapping[str, str]) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    ways = [name for name in ("topic", "topics", "topicPattern") if name.lower() in given]
    if len(ways) != 1:
        found = " and ".join(ways) or "none"
        raise ConfigError(f"need one of the options topic, topics, topicPattern; found {found}")
    text = given[ways[0].lower()]
    if ways == ["topicPattern"]:
        try:
            return (), re.compile(text)
        except re.error as error:
            raise ConfigError(f"topicPattern {text!r} is no pattern: {error}") from error
    names = _listed(text) if ways == ["topics"] else (text.strip(),)
    if not all(names) or not names or len(set(names)) < len(names):
        raise ConfigError(f"{ways[0]} needs names, each once: {text!r}")
    return tuple(names), None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or not 0 < int(text) <= MESSAGES_MAX:
        raise ConfigError(f"{name} needs a whole number above 0, not {text!r}")
    return int(text)


def _tasks(text: str | None) -> int:
    """As many as this machine has processors, if it is not said."""
    if text is None:
        return os.cpu_count() or 1
    tasks = _number("tasks", text)
    if tasks > TASKS_MAX:
        raise ConfigError(f"tasks must be at most {TASKS_MAX}")
    return tasks
