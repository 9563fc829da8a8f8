"""Ends a server's ZooKeeper session by force, as an expiry does."""

import socket

from kazoo.client import KazooClient

_WORD_BYTES = 4
_PASSWORD_BYTES = 16
_MASK = (1 << 48) - 1
_TIMEOUT_S = 10.0
_SECRET = 0xB3415C00  # ZooKeeperServer.superSecret: seeds each session's password


def expire(hosts: str, record: str) -> None:
    """Close the session that holds the ephemeral node ``record`` (the end of its path).

    A client that knows the number and the password of a session may join and close it; the
    server derives the one from the other.
    """
    session = owner(hosts, record)
    client = KazooClient(hosts, client_id=(session, password(session)), timeout=_TIMEOUT_S)
    client.start(_TIMEOUT_S)
    assert client.client_id[0] == session, "ZooKeeper made a session of its own"
    client.stop()
    client.close()


def owner(hosts: str, record: str) -> int:
    """The session that holds an ephemeral node."""
    session = 0
    for line in four_letters(hosts, b"dump").splitlines():
        word = line.strip()
        if word.startswith("0x"):
            session = int(word.rstrip(":"), 16)
        elif word.endswith(record):
            return session - (1 << 64) if session >> 63 else session
    raise AssertionError(f"no session holds {record}")


def four_letters(hosts: str, word: bytes) -> str:
    """The answer to one of ZooKeeper's four-letter words."""
    host, port = hosts.split(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as link:
        link.sendall(word)
        parts = []
        while part := link.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def password(session: int) -> bytes:
    """``new java.util.Random(session ^ superSecret).nextBytes``, 16 bytes."""
    state = ((session ^ _SECRET) ^ 0x5DEECE66D) & _MASK
    made = b""
    while len(made) < _PASSWORD_BYTES:
        state = (state * 0x5DEECE66D + 0xB) & _MASK
        made += (state >> 16).to_bytes(_WORD_BYTES, "little")
    return made
