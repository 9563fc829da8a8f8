"""The configuration: one TOML file, read once at start into frozen dataclasses.

The classes and their docstrings are the reference (``docs/reference/configuration.md`` is
generated from them): a field's type says which values its key takes, ``__post_init__`` checks how
keys relate. Every problem of a file is reported at once, one per line, as FILE: [SECTION] KEY.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, get_type_hints

from opentalos.adapters.oidc.settings import OidcSettings
from opentalos.model.checks import boolean, choice, integer, number, shown_value, string
from opentalos.model.errors import ConfigError, InvalidName
from opentalos.model.limits import (
    ClusterLimits,
    GroupLimits,
    HbaseLimits,
    HdfsLimits,
    HttpLimits,
    JvmLimits,
    LogLimits,
    MeasuringSettings,
    MessageLimits,
    MeteringSettings,
    MetricsSettings,
    QuotaApprovalLimits,
    QuotaLimits,
    TopicLimits,
    TracingSettings,
    ZookeeperLimits,
)
from opentalos.model.names import check_name
from opentalos.model.settings.billing import BillingSettings
from opentalos.model.settings.console import ConsoleSettings
from opentalos.model.settings.kafka import KafkaGroupLimits, KafkaSettings
from opentalos.model.settings.security import (
    AuditSettings,
    AuthLimits,
    EncryptionSettings,
    TlsSettings,
)
from opentalos.model.settings.tables import SdsLimits
from opentalos.ports.meta_store import VALUE_BYTES_MAX

_LOG_LEVELS = ("debug", "info", "warning", "error")
_LOG_FORMATS = ("text", "json")
_ACCELERATOR = ("auto", "off", "required")
_PORT_MAX = 65_535
_REQUEST_OVERHEAD_BYTES = 64 << 10  # Thrift fields and names around a block in a put
# Around a server's name in the record of an assignment: of a partition's server, and of a second
# one, with the partition, to which it returns after a restart, or from which it moves.
_NAME_QUOTED_BYTES = 3
_SECOND_QUOTED_BYTES = 10
_ASSIGNMENT_BYTES = 128  # of the record without names
_GROUP_SLACK_BYTES = 1 << 20  # block headers of a group, and the segment header
# Former names of keys by section and key, accepted for one version.
_RENAMED: Final = {
    ("sds", "slices_max"): "shards_max",
    ("sds", "look_s"): "pending_scan_interval_s",
    ("sds", "opened_look_s"): "opened_scan_interval_s",
    ("sds", "hold_s"): "throttle_max_s",
    ("quota", "hold_s"): "throttle_max_s",
    ("quota", "held_bytes_max"): "throttled_bytes_max",
    ("message", "get_hold_s"): "get_wait_s",
    ("message", "get_holds_max"): "get_waiting_max",
}
_CONFIG_BYTES_MAX = 1 << 20
_REMOTE = ("hdfs", "zookeeper", "hbase")  # schemes of URLs that name a host
_CHECKS: Mapping[type[Any], Callable[[object], object]] = {
    int: integer,
    float: number,
    bool: boolean,
    str: string,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """[server] Addresses, data directory and logging."""

    data: str = "talos-data"  # directory of all persistent state; used by one server at a time
    listen: str = "127.0.0.1:9420"  # HOST:PORT; port 0 picks a free one
    advertise: str = ""  # HOST:PORT that clients are given; empty: the listen address
    log_level: str = "info"  # debug, info, warning or error; lines go to stderr
    log_format: str = "text"  # text, or json: one object per line

    def __post_init__(self) -> None:
        for key, allowed in (("log_format", _LOG_FORMATS), ("log_level", _LOG_LEVELS)):
            try:
                choice(getattr(self, key), allowed)
            except ValueError as error:
                raise ValueError(f"{key} {error}") from error
        parse_address(self.listen, "listen")
        if self.advertise:
            parse_address(self.advertise, "advertise")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """[storage] Backends: file and sqlite for one server; hdfs, zookeeper, hbase for many."""

    files: str = "file://"  # message logs: file:// (no path: DATA/log) or hdfs://HOST:PORT/PATH
    files_shared: bool = False  # the file:// path is one file system that all servers mount
    meta: str = "sqlite://"  # control records: DATA/meta.sqlite, or zookeeper://HOST:PORT,.../PATH
    rows: str = "sqlite://"  # consumer groups: DATA/rows.sqlite, or hbase://HOST:PORT,.../NAMESPACE
    open_timeout_s: float = 60.0  # how long the server tries to reach each of them at start
    accelerator: str = "auto"  # native threads write file:// logs: auto (if built), off or required

    def __post_init__(self) -> None:
        try:
            choice(self.accelerator, _ACCELERATOR)
        except ValueError as error:
            raise ValueError(f"accelerator {error}") from error
        files = _scheme_of("files", self.files, ("file", "hdfs"))
        meta = _scheme_of("meta", self.meta, ("sqlite", "zookeeper"))
        rows = _scheme_of("rows", self.rows, ("sqlite", "hbase"))
        if self.clustered:
            if rows != "hbase":
                raise ValueError("zookeeper:// meta needs hbase:// rows: servers must share them")
            if files == "file" and not self.files_shared:
                raise ValueError("file:// storage with ZooKeeper needs files_shared = true")
            if files == "file" and not self.files.removeprefix("file://").startswith("/"):
                raise ValueError('files_shared needs a path: files = "file:///SHARED/PATH"')
        elif meta == "sqlite" and (files, rows) != ("file", "sqlite"):
            other = "files" if files != "file" else "rows"
            raise ValueError(
                f"{getattr(self, other).partition('/')[0]}// {other} need zookeeper:// meta: "
                "sqlite:// is for one server with file:// and sqlite://"
            )

    @property
    def clustered(self) -> bool:
        """Whether several servers share the storage."""
        return self.meta.startswith("zookeeper://")

    @property
    def on_hdfs(self) -> bool:
        """Whether the message logs are in HDFS."""
        return self.files.startswith("hdfs://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every section of the file; checks how keys of different sections relate."""

    server: ServerSettings = field(default_factory=ServerSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    http: HttpLimits = field(default_factory=HttpLimits)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    measuring: MeasuringSettings = field(default_factory=MeasuringSettings)
    billing: BillingSettings = field(default_factory=BillingSettings)
    metering: MeteringSettings = field(default_factory=MeteringSettings)
    auth: AuthLimits = field(default_factory=AuthLimits)
    audit: AuditSettings = field(default_factory=AuditSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    message: MessageLimits = field(default_factory=MessageLimits)
    log: LogLimits = field(default_factory=LogLimits)
    topic: TopicLimits = field(default_factory=TopicLimits)
    group: GroupLimits = field(default_factory=GroupLimits)
    kafka_group: KafkaGroupLimits = field(default_factory=KafkaGroupLimits)
    quota: QuotaLimits = field(default_factory=QuotaLimits)
    quota_approval: QuotaApprovalLimits = field(default_factory=QuotaApprovalLimits)
    sds: SdsLimits = field(default_factory=SdsLimits)
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
        if self.cluster.name:
            try:
                check_name(self.cluster.name, "server name")
            except InvalidName as error:
                raise ValueError(f"[cluster] {error}") from error
            self._check_name_fits()
        if self.storage.on_hdfs:
            self._check_segments()

    def _check_name_fits(self) -> None:
        """The record that names the servers of a topic's partitions must fit into its store."""
        partitions = self.topic.partitions_max
        # While many servers restart, nearly all partitions may be lent.
        second = partitions + min(partitions, self.cluster.moves_at_once)
        quoted = partitions * _NAME_QUOTED_BYTES + second * _SECOND_QUOTED_BYTES
        most = (VALUE_BYTES_MAX - _ASSIGNMENT_BYTES - quoted) // (partitions + second)
        if len(self.cluster.name) > most:
            raise ValueError(
                f"[cluster] name has {len(self.cluster.name)} characters: with [topic] "
                f"partitions_max {partitions} a name has at most {most}, on every server"
            )

    @property
    def segment_bytes_hdfs_max(self) -> int:
        """Largest segment size at which the next group still fits into the same HDFS block.

        A sync covers one HDFS block only.
        """
        group = max(self.log.group_bytes_max, self.message.block_bytes_max)
        return self.hdfs.block_bytes - group - _GROUP_SLACK_BYTES

    def _check_segments(self) -> None:
        log, block, most = self.log, self.hdfs.block_bytes, self.segment_bytes_hdfs_max
        if log.segment_bytes_max > most:
            raise ValueError(
                f"[hdfs] block_bytes ({block}) must be {block + log.segment_bytes_max - most} or "
                f"more, or [log] segment_bytes_max ({log.segment_bytes_max}) smaller: a segment "
                f"and the largest group ({block - most} bytes) must fit into it"
            )
        hard_max = log.segment_bytes_hard_max
        if hard_max > most and hard_max != LogLimits().segment_bytes_hard_max:
            raise ValueError(
                f"[log] segment_bytes_hard_max ({hard_max}) must be {most} or less, or [hdfs] "
                f"block_bytes ({block}) larger: such a segment and the largest group "
                f"({block - most} bytes) must fit into it"
            )

    def with_server(self, **changes: str) -> "Config":
        """A copy with keys of [server] replaced; command line options use this."""
        try:
            return replace(self, server=replace(self.server, **changes))
        except ValueError as error:
            raise ConfigError(f"[server] {error}") from error

    def with_kafka_listen(self, listen: str) -> "Config":
        """A copy with another port for clients of Kafka. Raises: ConfigError."""
        try:
            return replace(self, kafka=replace(self.kafka, listen=listen))
        except ValueError as error:
            raise ConfigError(f"[kafka] {error}") from error

    def with_console(self) -> "Config":
        """A copy with the console."""
        return replace(self, console=replace(self.console, enabled=True))

    def with_name(self, name: str) -> "Config":
        """A copy for the server of this name in its cluster. Raises: ConfigError."""
        try:
            return replace(self, cluster=replace(self.cluster, name=name))
        except ValueError as error:
            raise ConfigError(str(error)) from error


_MAY_BE_SECRET = re.compile("auth|secret|passw|token|credential|options|key(?!_file)")


def sections() -> dict[str, type[Any]]:
    """Section name to its dataclass, in the order of the reference page."""
    return {item.name: item.default_factory for item in fields(Config)}  # type: ignore[misc]


def load_config(path: Path | None) -> Config:
    """Read the file; without one, the defaults. Raises: ConfigError: names every wrong key."""
    if path is None:
        return Config()
    try:
        with path.open("rb") as file:
            text = file.read(_CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(text) > _CONFIG_BYTES_MAX:
        raise ConfigError(f"cannot read {path}: larger than {_CONFIG_BYTES_MAX} bytes")
    try:
        document = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: invalid TOML: {error}") from error
    return parse_config(document, str(path))


def _named_twice(section: str, keys: Mapping[str, Any]) -> list[str]:
    """Problems: keys that are set by their former and by their present name."""
    renamed = {key: _RENAMED.get((section, key)) for key in keys}
    return [
        f"[{section}] {key} is the former name of {present}; set only {present}"
        for key, present in renamed.items()
        if present in keys
    ]


def parse_config(document: Mapping[str, Any], source: str) -> Config:
    """The configuration that a document describes. Raises: ConfigError: one line per problem."""
    known, problems, parts = sections(), list[str](), dict[str, Any]()
    for name, keys in document.items():
        if name not in known:
            problems.append(f"unknown section [{name}]{_nearest(name, known)}")
        elif not isinstance(keys, dict):
            problems.append(f"{name} must be a section: [{name}]")
        else:
            twice = _named_twice(name, keys)
            keys = {_RENAMED.get((name, key), key): value for key, value in keys.items()}
            wrong = twice + _check_keys(name, keys, known[name])
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
            continue
        try:
            _CHECKS[types[key]](value)
        except ValueError as error:
            problems.append(f"[{section}] {key} {error}, not {shown_value(value)}")
    return problems


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    import difflib  # half a megabyte, and only for a misspelt key

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def parse_address(text: str, what: str) -> tuple[str, int]:
    """Split ``HOST:PORT``; an IPv6 host is in brackets. Raises: ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise ValueError(f"{what} must be HOST:PORT, not {shown_value(text)}")
    return host.strip("[]"), int(port)


def _scheme_of(key: str, url: str, schemes: tuple[str, ...]) -> str:
    """The URL's scheme. Raises: ValueError: another one, or one that needs a host has none."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in schemes:
        wanted = " or ".join(f"{known}://" for known in schemes)
        raise ValueError(f"{key} must be a URL that begins with {wanted}, not {shown_value(url)}")
    if scheme in _REMOTE and not rest.partition("/")[0]:
        raise ValueError(f"{key} must name a host after {scheme}://, not {shown_value(url)}")
    return scheme


def to_toml(config: Config) -> str:
    """The whole configuration as a file that ``load_config`` reads back."""
    lines: list[str] = []
    for name, cls in sections().items():
        lines.append(f"[{name}]")
        part = getattr(config, name)
        lines += [f"{item.name} = {toml_value(getattr(part, item.name))}" for item in fields(cls)]
        lines.append("")
    return "\n".join(lines)


def changed_keys(config: Config) -> str:
    """The keys that differ from their defaults, as ``section.key=value``, on one line; without
    the values that may have a secret."""
    changed = []
    for name, cls in sections().items():
        part, defaults = getattr(config, name), cls()
        for item in fields(cls):
            value = getattr(part, item.name)
            if value != getattr(defaults, item.name):
                secret = _may_be_secret(item.name, value)
                changed.append(f"{name}.{item.name}={'...' if secret else toml_value(value)}")
    return " ".join(changed)


def redacted_toml(config: Config) -> str:
    """``to_toml`` without the values that may have a secret, for the eyes of others."""
    lines: list[str] = []
    for name, cls in sections().items():
        lines.append(f"[{name}]")
        for item in fields(cls):
            value = getattr(getattr(config, name), item.name)
            shown = '"..."' if value and _may_be_secret(item.name, value) else toml_value(value)
            lines.append(f"{item.name} = {shown}")
        lines.append("")
    return "\n".join(lines)


def _may_be_secret(key: str, value: object) -> bool:
    return isinstance(value, str) and _MAY_BE_SECRET.search(key) is not None


def toml_value(value: object) -> str:
    """One TOML value of the types that sections use."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"'
    return str(value)
