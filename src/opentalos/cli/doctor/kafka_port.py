"""The port for clients of Kafka: free for a server to come, or answering on one that runs."""

import json
import socket
from pathlib import Path
from typing import Final

from opentalos.cli.doctor.finding import Finding
from opentalos.model.address import split_address

# The first request of every client: ApiVersions in version 0, correlation id 1, no client id.
_REQUEST: Final = bytes.fromhex("0000000a0012000000000001ffff")
_ANSWER: Final = bytes.fromhex("000000010000")  # correlation id, no error
_TIMEOUT_S: Final = 5.0
_NAME: Final = "kafka"


def check_kafka_port(listen: str, data: Path) -> Finding:
    """Args: listen: [kafka] of the configuration; data: where a running server says its port."""
    path = data / "server.json"
    try:
        record = json.loads(path.read_text()) if path.exists() else None
    except (OSError, ValueError) as error:
        return Finding(_NAME, "problem", f"{path} cannot be read: {error}")
    if record is not None:
        return _answers(str(record.get("kafka", "")), "https" in str(record.get("url", "")))
    if not listen:
        return Finding(_NAME, "ok", "no port for clients of Kafka ([kafka] listen)")
    host, port = split_address(listen)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, port))
    except OSError as error:
        remedy = "stop what listens there, or set another [kafka] listen"
        return Finding(_NAME, "problem", f"cannot listen on {listen}: {error}", remedy)
    return Finding(_NAME, "ok", f"{listen} is free")


def _answers(address: str, tls: bool) -> Finding:
    if not address:
        return Finding(_NAME, "ok", "the server has no port for clients of Kafka")
    remedy = "is it the address that clients reach? see [kafka] listen and advertise"
    try:
        with socket.create_connection(split_address(address), _TIMEOUT_S) as connection:
            if tls:
                return Finding(_NAME, "ok", f"{address} accepts connections (TLS)")
            connection.sendall(_REQUEST)
            answer = connection.makefile("rb").read(10)[4:]
    except (OSError, ValueError) as error:
        return Finding(_NAME, "problem", f"no connection to {address}: {error}", remedy)
    if answer != _ANSWER:
        return Finding(_NAME, "problem", f"{address} does not answer clients of Kafka", remedy)
    return Finding(_NAME, "ok", f"{address} answers clients of Kafka")
