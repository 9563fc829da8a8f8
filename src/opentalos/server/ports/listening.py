"""The ports of one server, and how many connections they may have together."""

from opentalos.adapters.local.descriptors import open_files_max
from opentalos.gateway.http.fairness.connections import ConnectionRoom
from opentalos.gateway.http.server import HttpServer
from opentalos.server.config import Config
from opentalos.server.measuring.descriptor_plan import check_descriptors
from opentalos.server.ports.kafka import KafkaServer


def make_ports(config: Config) -> tuple[HttpServer, KafkaServer]:
    """The ports for HTTP and for Kafka, which do not listen yet.

    Raises: ConfigError: the process may have too few descriptors.
    """
    room = ConnectionRoom(check_descriptors(config).connections, open_files_max)
    http = HttpServer(config.http, room=room)
    return http, KafkaServer(config.kafka, room, http.turns)
