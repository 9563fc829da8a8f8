"""[kafka]: the port for clients of Kafka."""

from dataclasses import dataclass

from opentalos.model.address import split_address
from opentalos.model.limits import need


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
