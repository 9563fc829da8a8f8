"""Configuration of HDFS's Java client: the site's files, then the settings of a message log."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opentalos.model.checks import shown_value
from opentalos.model.errors import ConfigError
from opentalos.model.limits import HdfsLimits

_SITE_FILES = ("core-site.xml", "hdfs-site.xml")
_DEFAULT_FILES = ("core-default.xml", "hdfs-default.xml")
_ROOT_PATH = re.compile(r"(/[a-zA-Z0-9._-]+)*")
# NameNode calls under way may need a connection first: one try and one more share their time.
_CONNECT_SHARE = 3


@dataclass(frozen=True, slots=True)
class HdfsLocation:
    """Where a store's files are: a NameNode or name service, and the folder of the store."""

    uri: str  # hdfs://HOST:PORT or hdfs://NAMESERVICE
    root: str  # "" or an absolute path without a final "/"


def parse_hdfs_url(url: str) -> HdfsLocation:
    """Split ``hdfs://HOST:PORT/PATH`` or ``hdfs://NAMESERVICE/PATH``. Raises: ConfigError."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    problem = ""
    if parts.scheme != "hdfs":
        problem = "it must begin with hdfs://"
    elif not parts.hostname or "@" in parts.netloc:
        problem = "it must name a NameNode (HOST:PORT) or a name service, and no user"
    elif parts.query or parts.fragment or not _ROOT_PATH.fullmatch(path):
        problem = "its path may have parts of letters, digits and . _ - only"
    elif {".", ".."} & set(path.split("/")):
        problem = "its path may not have . or .. as a part"
    else:
        try:
            _ = parts.port
        except ValueError:
            problem = "the port must be a number up to 65535"
    if problem:
        raise ConfigError(f"{shown_value(url)} is not an HDFS URL: {problem}")
    return HdfsLocation(f"hdfs://{parts.netloc}", path)


def client_keys(limits: HdfsLimits) -> dict[str, str]:
    """Keys of the client that differ from Hadoop's defaults. The site's files win over them."""
    call_ms = int(limits.call_timeout_s * 1000)
    return {
        # Otherwise close() of nearly every written file waits 400 ms. With ten tries up to 10 s.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
        "dfs.client.block.write.locateFollowingBlock.retries": "10",
        # A writer continues with the remaining DataNodes; replicas_min is the smallest number.
        "dfs.client.block.write.replace-datanode-on-failure.enable": "true",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "DEFAULT",
        "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
        # Report an unreachable NameNode at once; the caller decides about retries.
        "ipc.client.connect.max.retries": "1",
        "ipc.client.connect.max.retries.on.timeouts": "1",
        "ipc.client.connect.retry.interval": "200",
        "ipc.client.connect.timeout": str(max(1, call_ms // _CONNECT_SHARE)),
        # Longer than any caller waits: when renewing the leases takes so long, the client gives
        # up every file it writes.
        "ipc.client.rpc-timeout.ms": "60000",
        # A DataNode that does not answer: a read asks another one meanwhile.
        "dfs.client.hedged.read.threadpool.size": str(limits.threads),
        "dfs.client.hedged.read.threshold.millis": "500",
        "dfs.client.retry.window.base": "500",
        "dfs.client.retry.interval-ms.get-last-block-length": "200",
        "dfs.client.socket-timeout": str(int(limits.datanode_timeout_s * 1000)),
        # The store closes its own files; what a dead process left is for lease recovery.
        "fs.automatic.close": "false",
        "hadoop.kerberos.keytab.login.autorenewal.enabled": "true",
    }


def java_configuration(classes: Any, conf_dir: Path | None, limits: HdfsLimits) -> Any:
    """A ``Configuration`` of the site's files and, where they say nothing, ``client_keys``.

    ``classes``: gives a Java class by its name.
    """
    configuration = classes("org.apache.hadoop.conf.Configuration")()
    # HDFS registers its defaults when this class is loaded; before, they look like the site's
    classes("org.apache.hadoop.hdfs.HdfsConfiguration").init()
    path = classes("org.apache.hadoop.fs.Path")
    for name in _SITE_FILES:
        if conf_dir is not None and (conf_dir / name).is_file():
            configuration.addResource(path(f"file://{(conf_dir / name).absolute()}"))
    for key, value in client_keys(limits).items():
        sources = configuration.getPropertySources(key)
        if sources is None or all(str(source) in _DEFAULT_FILES for source in sources):
            configuration.set(key, value)
    return configuration


def log_in(classes: Any, configuration: Any, limits: HdfsLimits) -> None:
    """Log in from the keytab, if one is configured, for every Hadoop client of the process."""
    if limits.kerberos_principal:
        users = classes("org.apache.hadoop.security.UserGroupInformation")
        users.setConfiguration(configuration)
        users.loginUserFromKeytab(limits.kerberos_principal, limits.kerberos_keytab)


def retries_blindly(classes: Any, configuration: Any, uri: str) -> bool:
    """Whether the client retries calls itself, so that its last error may hide an earlier one: it
    does with name services of several NameNodes, or if so configured."""
    if configuration.getBoolean("dfs.client.retry.policy.enabled", False):
        return True
    address = classes("java.net.URI").create(uri)
    return bool(classes("org.apache.hadoop.hdfs.HAUtilClient").isLogicalUri(configuration, address))
