"""[kafka]: the port for clients of Kafka."""

from dataclasses import dataclass

from opentalos.model.address import split_address
from opentalos.model.limits import need

UNKNOWN_BYTES_MAX = 64 << 10  # of a request before the client has authenticated


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """[kafka] The port for clients of Kafka; it has TLS if the port for HTTP has."""

    listen: str = "127.0.0.1:0"  # HOST:PORT; port 0 picks a free one; empty: no such port
    advertise: str = ""  # HOST:PORT that clients are given; empty: the listen address
    auto_create_topics: bool = False  # true: a client that asks for a missing topic makes it
    request_bytes_max: int = 32 << 20  # of one request; 64 KiB before the client has authenticated
    requests_bytes_total_max: int = 256 << 20  # requests in memory, whole server
    answers_bytes_total_max: int = 512 << 20  # answers that wait for their readers, whole server
    connections_max: int = 5_000
    connections_address_max: int = 1_000  # of a client address or IPv6 /64; not loopback; 0: none
    request_timeout_s: float = 30.0  # from a request's first byte to its last; to authenticate
    idle_timeout_s: float = 600.0  # for a connection without a request
    write_stall_s: float = 30.0  # a client that does not read its answers is disconnected

    def __post_init__(self) -> None:
        if self.advertise:
            split_address(self.advertise)
        need(
            64 << 10 <= self.request_bytes_max <= self.requests_bytes_total_max,
            "need 64 KiB <= request_bytes_max <= requests_bytes_total_max",
        )
        need(self.answers_bytes_total_max > 0, "need answers_bytes_total_max > 0")
        need(self.connections_max > 0, "need connections_max > 0")
        need(self.connections_address_max >= 0, "need connections_address_max >= 0")
        timeouts_s = (self.request_timeout_s, self.idle_timeout_s, self.write_stall_s)
        need(min(timeouts_s) > 0, "need request_timeout_s, idle_timeout_s, write_stall_s > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaGroupLimits:
    """[kafka_group] Limits of consumer groups of Kafka clients."""

    groups_max: int = 10_000  # with members, of this server
    groups_of_tenant_max: int = 2_000  # of them, of one tenant
    members_max: int = 1_000  # per group
    partitions_max: int = 50_000  # of a group's topics, if the server decides its assignments
    members_bytes_max: int = 256 << 20  # of all members' metadata and assignments, this server
    members_bytes_of_tenant_max: int = 64 << 20  # of them, of one tenant
    metadata_bytes_max: int = 64 << 10  # that a member sends in one join; all its protocols
    assignment_bytes_max: int = 1 << 20  # of one member
    # As Kafka's offsets.retention.minutes, and at least the topic's retention.
    offsets_retention_s: float = 604_800.0  # an unused group is deleted after it; 0: never
    offset_metadata_bytes_max: int = 4096  # the text that a client stores with an offset
    session_min_s: float = 6.0  # that a member may ask for
    session_max_s: float = 1_800.0
    rebalance_max_s: float = 1_800.0  # a rebalance waits at most so long for members
    initial_delay_s: float = 3.0  # the first rebalance of a group waits so long for more members
    heartbeat_s: float = 5.0  # of members of the protocol with assignments by the server
    consumer_session_s: float = 45.0  # of such a member without a heartbeat

    def __post_init__(self) -> None:
        need(
            0 < self.groups_of_tenant_max <= self.groups_max,
            "need 0 < groups_of_tenant_max <= groups_max",
        )
        need(self.members_max > 0, "need members_max > 0")
        need(self.partitions_max > 0, "need partitions_max > 0")
        sizes = (self.metadata_bytes_max, self.assignment_bytes_max)
        need(min(sizes) >= 1 << 10, "need metadata_bytes_max, assignment_bytes_max >= 1 KiB")
        need(
            sum(sizes) <= self.members_bytes_of_tenant_max <= self.members_bytes_max,
            "need metadata_bytes_max + assignment_bytes_max <= members_bytes_of_tenant_max "
            "<= members_bytes_max",
        )
        need(
            self.offsets_retention_s == 0 or self.offsets_retention_s >= 3_600,
            "need offsets_retention_s = 0 or >= 3600",
        )
        need(
            0 <= self.offset_metadata_bytes_max <= 32_767,
            "need 0 <= offset_metadata_bytes_max <= 32767",
        )
        need(
            0 < self.session_min_s <= self.session_max_s,
            "need 0 < session_min_s <= session_max_s",
        )
        need(self.rebalance_max_s > 0, "need rebalance_max_s > 0")
        need(self.initial_delay_s >= 0, "need initial_delay_s >= 0")
        need(
            0 < self.heartbeat_s < self.consumer_session_s,
            "need 0 < heartbeat_s < consumer_session_s",
        )
