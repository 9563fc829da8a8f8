"""The sources of the figures of /metrics."""

from collections.abc import Callable
from dataclasses import dataclass

from opentalos.broker.broker import Broker
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.sds_http.gateway import SdsGateway
from opentalos.gateway.thrift_http.gateway import ThriftGateway

QUOTA_ERRORS = ("ThrottleRejected", "QuotaExceeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """Figures of the process."""

    loop_blocked_s: float  # total since the start
    loop_blocked_longest_s: float
    loop_blocked_recent_s: float  # the longest of the last minute
    tls_reloads: int
    tls_reload_failures: int
    thread_start_failures: int
    descriptors_exhausted: int  # checks, one a second
    hdfs_files_short: int  # open ones with fewer DataNodes than wanted
    wal_tail_cuts: int  # of SQLite's logs
    tls_expires_s: float  # Unix time; 0: no certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Everything that is read for one page."""

    broker: Broker
    http: HttpServer
    thrift: ThriftGateway
    sds: SdsGateway
    rest: RestGateway
    kafka: KafkaPort
    forwarding: Forwarding | None
    process: Callable[[], ProcessFigures]
