"""What each use of descriptors may take of those that the process may have.

Who opens the ports and the stores follows the plan, so that recovery, SQLite and the journals find
a free one. What nobody can bound, such as the sockets of a Java client, is estimated; a call of the
file store that finds none closes idle files and tries again, and the ports leave it a few.
"""

import logging
import resource
from typing import NamedTuple

from opentalos.adapters.local.descriptors import CALL_DESCRIPTORS, PLENTY, FileDescriptors
from opentalos.model.errors import ConfigError
from opentalos.server.config import Config

# The loop, listening sockets, both SQLite databases, the spools, locks and stderr are 30; the rest
# is opened for a moment: a module, a certificate, a checkpoint.
FIXED = 40
# Jars, and the sockets and selectors of the clients of HDFS, HBase and ZooKeeper.
CLUSTER = 128
LIMIT_MIN, LIMIT_MIN_CLUSTERED = 64, 256  # with less, hardly anything would work
CALLS_MIN = 2
LEFT_MIN = 16  # for connections and files
FILES_ENOUGH = 4_096  # with more, files seldom rest; connections may have the others
READERS_SHARE = 3  # one in so many files is open for reading
LIMIT_PER_CALL = 32  # descriptors for each call of the file store at once
PEERS_BUSY = 4  # other servers to which all connections are open
PEERS_SHARE = 32  # connections to one other server, of what is left
# Of an open file on HDFS: its socket, and what a thread waits with for the DataNode's answers.
HDFS_FILE_DESCRIPTORS = 4
ENOUGH = 4_096  # the least that is recommended
OPEN_FILES_MAX = 1 << 20  # requested at most; Linux allows no process more by default

_log = logging.getLogger("opentalos.descriptors")


class DescriptorPlan(NamedTuple):
    """A share of ``limit`` for each use; the rest is for everything else, and for recovery."""

    limit: int
    connections: int  # of clients, all ports together
    peer_connections: int  # to one other server
    files: FileDescriptors

    @property
    def hdfs_files(self) -> int:
        """Files on HDFS that may be open at once."""
        return max(1, self.files.append_max // HDFS_FILE_DESCRIPTORS)


def raise_open_files() -> int:
    """Take as many descriptors as the process may have; return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else soft
    while wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):  # a kernel's own bound: kern.maxfilesperproc, fs.nr_open
            wanted //= 2
        else:
            return wanted
    return soft


def descriptor_plan(config: Config) -> DescriptorPlan:
    """Take as many descriptors as the process may have, and divide them."""
    return _divided(raise_open_files(), config)


def check_descriptors(config: Config) -> DescriptorPlan:
    """The plan, with a warning if the configured connections are more than there can be.

    Raises: ConfigError: so few that hardly anything would work.
    """
    plan = descriptor_plan(config)
    least, wanted = limit_min(config), _limit_wanted(config)
    if plan.limit < least:
        raise ConfigError(
            f"this process may have {plan.limit} open files, and a server needs at least {least}; "
            f"raise its limit (ulimit -n, LimitNOFILE= in a systemd unit) to {wanted}"
        )
    configured = _configured_connections(config)
    if plan.connections < configured:
        _log.warning(
            "the limit of %d open files leaves %d connections, of %d configured, and %d open files "
            "of the log; raise it (ulimit -n, LimitNOFILE= in a systemd unit) to %d, or lower "
            "[http] and [kafka] connections_max",
            *(plan.limit, plan.connections, configured, plan.files.append_max, wanted),
        )
    return plan


def limit_min(config: Config) -> int:
    """Below it a server does not start."""
    return LIMIT_MIN_CLUSTERED if config.storage.clustered else LIMIT_MIN


def _limit_wanted(config: Config) -> int:
    """With it nothing is reduced."""
    limit = ENOUGH
    while _divided(limit, config).connections < _configured_connections(config):
        limit *= 2
    return limit


def _configured_connections(config: Config) -> int:
    kafka = config.kafka.connections_max if config.kafka.listen else 0
    return config.http.connections_max + kafka


def _divided(limit: int, config: Config) -> DescriptorPlan:
    """Half of what is left for connections, unless files have enough with less."""
    calls = min(PLENTY.calls_max, max(CALLS_MIN, limit // LIMIT_PER_CALL))
    left = limit - FIXED - calls * CALL_DESCRIPTORS
    peers = config.cluster.peer_connections_max
    if config.storage.clustered:
        left -= CLUSTER
        peers = min(peers, max(1, left // PEERS_SHARE))
        left -= PEERS_BUSY * peers
    left = max(left, LEFT_MIN)  # below the least limit too: commands open the files as well
    enough = FILES_ENOUGH
    if config.storage.on_hdfs:
        enough = config.jvm.heap_mb * HDFS_FILE_DESCRIPTORS  # a file takes 1 MiB of it
    connections = min(_configured_connections(config), max(left // 2, left - enough))
    files = left - connections
    readers = min(PLENTY.readers_max, files // READERS_SHARE)
    return DescriptorPlan(
        limit=limit,
        connections=connections,
        peer_connections=peers,
        files=FileDescriptors(append_max=files - readers, readers_max=readers, calls_max=calls),
    )
