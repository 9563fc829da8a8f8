"""How reads and writes reach the servers: connection options and the clients of a process.

Options are resolved where the query is planned; tasks are sent the result. Clients with their
connections are a cache only: Spark's workers are not bound to partitions.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from opentalos.model.errors import ConfigError
from opentalos.sdk import Client
from opentalos.sdk.core.config import (
    KEY_VARIABLE,
    URL_VARIABLE,
    ClientConfig,
    key_in_file,
    split_key,
    split_urls,
)

CLIENTS_MAX: Final = 8  # of one process, by configuration
NUMBER_MAX: Final = 1 << 40  # of an option


@lru_cache(maxsize=CLIENTS_MAX)
def client_of(config: ClientConfig) -> Client:
    """The client of this process for a configuration; an evicted one closes itself."""
    return Client(config)


def connection(options: Mapping[str, str]) -> ClientConfig:
    """The connection from ``url``, ``key`` or ``keyFile``, and ``profile``, otherwise from the
    SDK's defaults.

    Raises: ConfigError: an option is missing or invalid.
    """
    given = lowered(options)
    if "keyfile" in given:
        if "key" in given:
            raise ConfigError("the options key and keyFile both give a key; keep one of them")
        given["key"] = ":".join(key_in_file(Path(given["keyfile"])))
    settings: dict[str, Any] = {}
    if "timeoutseconds" in given:
        settings["deadline_s"] = float(whole_number("timeoutSeconds", given["timeoutseconds"]))
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
            raise ConfigError(f"{what} of talos has no option {name!r}; known: {shown}")


def path_as_topic(given: Mapping[str, str]) -> dict[str, str]:
    """The options with ``path`` as ``topic``: ``load("clicks")`` and ``save("clicks")`` give it.

    Raises: ConfigError: the topic is given a second time. ``given``: names in lower case.
    """
    path = given.get("path")
    if path is None:
        return dict(given)
    others = [name for name in ("topic", "topics", "topicPattern") if name.lower() in given]
    if others:
        raise ConfigError(
            f"the topic is given twice, as the path {path!r} and as the option {others[0]}"
        )
    return {name: text for name, text in given.items() if name != "path"} | {"topic": path}


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Options with their names in lower case: Spark does not keep their case."""
    return {name.lower(): text for name, text in options.items()}


def whole_number(name: str, text: str) -> int:
    """A whole number above 0. Raises: ConfigError."""
    if not text.strip().isdecimal() or not 0 < int(text) <= NUMBER_MAX:
        raise ConfigError(f"{name} is {text!r}: give a whole number above 0")
    return int(text)
