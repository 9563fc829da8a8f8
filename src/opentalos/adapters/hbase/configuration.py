"""Configuration of HBase's Java client: the site's file, then the URL and our limits."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opentalos.model.checks import shown_value
from opentalos.model.errors import ConfigError
from opentalos.model.limits import HbaseLimits

_SITE_FILE = "hbase-site.xml"
_DEFAULT_PORT = 2181
_NAMESPACE = re.compile(r"[a-zA-Z0-9_]+")
TRIES_PER_CALL = 2  # that wait for an answer until the end of the call


@dataclass(frozen=True, slots=True)
class HbaseLocation:
    """Where the tables are: HBase's ZooKeeper, and a namespace of our own."""

    quorum: str  # HOST:PORT[,HOST:PORT]
    namespace: str


def parse_hbase_url(url: str) -> HbaseLocation:
    """Split ``hbase://ZKHOST:PORT[,ZKHOST:PORT]/NAMESPACE``. Raises: ConfigError."""
    parts = urlsplit(url)
    hosts = [host for host in parts.netloc.split(",") if host]
    namespace = parts.path.strip("/")
    if (
        parts.scheme != "hbase"
        or not hosts
        or "@" in parts.netloc
        or not _NAMESPACE.fullmatch(namespace)
    ):
        raise ConfigError(
            f"{shown_value(url)} must be hbase://ZOOKEEPER-HOST:PORT[,HOST:PORT]/NAMESPACE"
        )
    with_ports = [host if ":" in host else f"{host}:{_DEFAULT_PORT}" for host in hosts]
    return HbaseLocation(",".join(with_ports), namespace)


def client_keys(location: HbaseLocation, limits: HbaseLimits) -> dict[str, str]:
    """Keys that are set whatever the site says.

    The client tries nothing twice: a repeat that it makes by itself hides what became of the first
    try. The store repeats, and knows which tries may have been carried out.
    """
    try_ms = str(max(1, int(limits.call_timeout_s * 1000 / TRIES_PER_CALL)))
    return {
        "hbase.zookeeper.quorum": location.quorum,
        "hbase.client.retries.number": "0",
        "hbase.rpc.timeout": try_ms,
        "hbase.rpc.read.timeout": try_ms,
        "hbase.rpc.write.timeout": try_ms,
        "hbase.client.operation.timeout": try_ms,
        "hbase.client.meta.operation.timeout": try_ms,
        "hbase.client.scanner.timeout.period": try_ms,
        "hbase.ipc.client.socket.timeout.connect": try_ms,
        "hbase.ipc.client.failed.servers.expiry": "200",
        "zookeeper.recovery.retry": "1",
        "zookeeper.recovery.retry.intervalmill": "200",
        "hbase.hconnection.threads.max": str(2 * limits.threads),
        "hbase.hconnection.threads.core": str(limits.threads),
    }


def java_configuration(
    classes: Any, conf_dir: Path | None, location: HbaseLocation, limits: HbaseLimits
) -> Any:
    """A ``Configuration`` for the client. ``classes``: gives a Java class by its name."""
    configuration = classes("org.apache.hadoop.hbase.HBaseConfiguration").create()
    if conf_dir is not None and (conf_dir / _SITE_FILE).is_file():
        path = classes("org.apache.hadoop.fs.Path")
        configuration.addResource(path(f"file://{(conf_dir / _SITE_FILE).absolute()}"))
    for key, value in client_keys(location, limits).items():
        configuration.set(key, value)
    return configuration
