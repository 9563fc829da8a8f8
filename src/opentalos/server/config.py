"""The configuration: one TOML file to frozen dataclasses, read once."""

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from opentalos.model.errors import ConfigError
from opentalos.model.limits import (
    AuthLimits,
    ClusterLimits,
    GroupLimits,
    HbaseLimits,
    HdfsLimits,
    HttpLimits,
    JvmLimits,
    LogLimits,
    MessageLimits,
    QuotaLimits,
    TopicLimits,
    ZookeeperLimits,
)

_LOG_LEVELS = ("debug", "info", "warning", "error")
_PORT_MAX = 65_535
_REQUEST_OVERHEAD_BYTES = 64 << 10  # of a put around its block: Thrift fields and names
_CONFIG_BYTES_MAX = 1 << 20
_WANTED = {
    int: "a whole number of 0 or more",
    float: "a number of 0 or more",
    bool: "true or false",
    str: "a text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """[server] Where the server listens and keeps its data."""

    data: str = "talos-data"  # directory of everything that lasts; one server at a time
    listen: str = "127.0.0.1:9420"  # HOST:PORT; port 0 picks a free one
    advertise: str = ""  # HOST:PORT told to clients; empty: the address listened on
    log_level: str = "info"  # debug, info, warning or error; lines go to stderr

    def __post_init__(self) -> None:
        if self.log_level not in _LOG_LEVELS:
            raise ValueError(f"log_level must be one of {', '.join(_LOG_LEVELS)}")
        parse_address(self.listen, "listen")
        if self.advertise:
            parse_address(self.advertise, "advertise")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """[storage] Backends by URL. This version keeps everything below the data directory."""

    files: str = "file://"  # message logs: a file:// URL; empty path: DATA/log
    meta: str = "sqlite://"  # control records: DATA/meta.sqlite
    rows: str = "sqlite://"  # consumer groups: DATA/rows.sqlite

    def __post_init__(self) -> None:
        _need_scheme("files", self.files, "file")
        _need_scheme("meta", self.meta, "sqlite")
        _need_scheme("rows", self.rows, "sqlite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every section of the file; relations between sections are checked here."""

    server: ServerSettings = field(default_factory=ServerSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    http: HttpLimits = field(default_factory=HttpLimits)
    auth: AuthLimits = field(default_factory=AuthLimits)
    message: MessageLimits = field(default_factory=MessageLimits)
    log: LogLimits = field(default_factory=LogLimits)
    topic: TopicLimits = field(default_factory=TopicLimits)
    group: GroupLimits = field(default_factory=GroupLimits)
    quota: QuotaLimits = field(default_factory=QuotaLimits)
    cluster: ClusterLimits = field(default_factory=ClusterLimits)
    zookeeper: ZookeeperLimits = field(default_factory=ZookeeperLimits)
    hdfs: HdfsLimits = field(default_factory=HdfsLimits)
    hbase: HbaseLimits = field(default_factory=HbaseLimits)
    jvm: JvmLimits = field(default_factory=JvmLimits)

    def __post_init__(self) -> None:
        block = self.message.block_bytes_max
        if block + _REQUEST_OVERHEAD_BYTES > self.http.body_bytes_max:
            raise ValueError(
                f"[message] block_bytes_max ({block}) and {_REQUEST_OVERHEAD_BYTES} bytes around "
                f"it must fit into [http] body_bytes_max ({self.http.body_bytes_max})"
            )
        if block > self.log.pending_bytes_max:
            raise ValueError(
                f"[message] block_bytes_max ({block}) must not exceed [log] pending_bytes_max "
                f"({self.log.pending_bytes_max})"
            )

    def with_server(self, **changes: str) -> "Config":
        """A copy with keys of [server] replaced, as command line options do."""
        try:
            return replace(self, server=replace(self.server, **changes))
        except ValueError as error:
            raise ConfigError(f"[server] {error}") from error


def sections() -> dict[str, type[Any]]:
    """Section name to its dataclass, in the order of the reference page."""
    return {item.name: item.default_factory for item in fields(Config)}  # type: ignore[misc]


def load_config(path: Path | None) -> Config:
    """Read the file, or give the defaults. Raises: ConfigError naming every wrong key."""
    if path is None:
        return Config()
    try:
        with path.open("rb") as file:
            text = file.read(_CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(text) > _CONFIG_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {_CONFIG_BYTES_MAX} bytes")
    try:
        document = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    return parse_config(document, str(path))


def parse_config(document: Mapping[str, Any], source: str) -> Config:
    """Turn a parsed document into the configuration. Raises: ConfigError."""
    known, problems, parts = sections(), list[str](), dict[str, Any]()
    for name, keys in document.items():
        if name not in known:
            problems.append(f"unknown section [{name}]{_nearest(name, known)}")
        elif not isinstance(keys, dict):
            problems.append(f"{name} must be a section: [{name}]")
        else:
            wrong = _check_keys(name, keys, known[name])
            problems += wrong
            if not wrong:
                try:
                    parts[name] = known[name](**keys)
                except ValueError as error:
                    problems.append(f"[{name}] {error}")
    if not problems:
        try:
            return Config(**parts)
        except ValueError as error:
            problems.append(str(error))
    raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems))


def _check_keys(section: str, keys: Mapping[str, Any], cls: type[Any]) -> list[str]:
    types: dict[str, type[Any]] = get_type_hints(cls)
    problems = []
    for key, value in keys.items():
        if key not in types:
            problems.append(f"[{section}] unknown key {key}{_nearest(key, types)}")
        elif not _fits(value, types[key]):
            wanted = _WANTED[types[key]]
            problems.append(f"[{section}] {key} must be {wanted}, not {value!r}")
    return problems


def _fits(value: object, wanted: type[Any]) -> bool:
    if wanted is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return 0 <= value < math.inf  # false for nan too
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, wanted)


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def parse_address(text: str, what: str) -> tuple[str, int]:
    """Split ``HOST:PORT``; an IPv6 host is in brackets. Raises: ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise ValueError(f"{what} must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def _need_scheme(key: str, url: str, scheme: str) -> None:
    if not url.startswith(f"{scheme}://"):
        raise ValueError(f"{key} must be a {scheme}:// URL, {url!r} is not served by this version")


def to_toml(config: Config) -> str:
    """The whole configuration as a file that ``load_config`` reads back."""
    lines: list[str] = []
    for name, cls in sections().items():
        lines.append(f"[{name}]")
        part = getattr(config, name)
        lines += [f"{item.name} = {toml_value(getattr(part, item.name))}" for item in fields(cls)]
        lines.append("")
    return "\n".join(lines)


def toml_value(value: object) -> str:
    """One TOML value of the types that sections use."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"'
    return str(value)
