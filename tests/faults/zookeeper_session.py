"""Ends a server's ZooKeeper session by force, as an expiry does."""

import socket
import struct

from tests.waiting import eventually, limit_s

from opentalos.catalog.principals.sealing import ANNOUNCED

_WORD_BYTES = 4
_PASSWORD_BYTES = 16
_MASK = (1 << 48) - 1
_SESSION_MS = 10_000
_LENGTH = struct.Struct("!i")
# Source: ZooKeeper 3.6, zookeeper.jute. ConnectRequest: protocol, last zxid seen, timeout, session,
# password, read only; ConnectResponse: its length and the same begin; RequestHeader: xid, type.
_JOIN = struct.Struct(f"!iqiqi{_PASSWORD_BYTES}s?")
_JOINED = struct.Struct("!iiiq")
_CLOSE = struct.pack("!ii", 1, -11)  # closeSession
_SECRET = 0xB3415C00  # ZooKeeperServer.superSecret: seeds each session's password


def expire(hosts: str, record: str) -> None:
    """Close the session that holds the ephemeral node ``record`` (the end of its path).

    Returns when other sessions hold all that it held and that is needed again: a server announces
    only once that it knows MACs. Until then its server may not know that it is closed, and says
    what it knew: a cluster that looks settled would prove nothing.
    """
    session = wait_holder(hosts, record)
    held = [
        path
        for path, other in holders(hosts).items()
        if other == session and f"/{ANNOUNCED}/" not in path
    ]
    close(hosts, session)

    def held_again() -> bool:
        now = holders(hosts)
        return all(now.get(path, session) != session for path in held)

    eventually(f"other sessions hold {held}", held_again)


def close(hosts: str, session: int) -> None:
    """Join the session and close it.

    Whoever knows the number and the password of a session may join it; ZooKeeper derives the one
    from the other, and ends the connection of who had it. That one comes back at once and would
    end ours, so both requests are sent together.
    """
    join = _JOIN.pack(0, 0, _SESSION_MS, session, _PASSWORD_BYTES, password(session), False)
    answer = exchange(hosts, *(_LENGTH.pack(len(part)) + part for part in (join, _CLOSE)))
    _, _, _, joined = _JOINED.unpack_from(answer)
    assert joined == session, "ZooKeeper does not know the session"


def wait_holder(hosts: str, record: str) -> int:
    """The session that holds the node whose path ends so, as soon as there is one."""

    def holding() -> list[int]:
        now = holders(hosts).items()
        return [session for path, session in now if path.endswith(f"/{record}")]

    return eventually(f"a session holds {record}", holding)[0]


def holders(hosts: str) -> dict[str, int]:
    """The session that holds each ephemeral node."""
    found = {}
    session = 0
    for line in four_letters(hosts, b"dump").splitlines():
        word = line.strip()
        if word.startswith("0x"):
            session = int(word.rstrip(":"), 16)
            session -= (session >> 63) << 64  # the protocol has it signed
        elif word.startswith("/"):
            found[word] = session
    return found


def four_letters(hosts: str, word: bytes) -> str:
    """The answer to one of ZooKeeper's four-letter words."""
    return exchange(hosts, word).decode()


def exchange(hosts: str, *parts: bytes) -> bytes:
    """All that ZooKeeper answers until it closes the connection."""
    host, port = hosts.split(":")
    with socket.create_connection((host, int(port)), limit_s()) as link:
        link.sendall(b"".join(parts))
        answer = []
        while part := link.recv(1 << 16):
            answer.append(part)
    return b"".join(answer)


def password(session: int) -> bytes:
    """``new java.util.Random(session ^ superSecret).nextBytes``, 16 bytes."""
    state = ((session ^ _SECRET) ^ 0x5DEECE66D) & _MASK
    made = b""
    while len(made) < _PASSWORD_BYTES:
        state = (state * 0x5DEECE66D + 0xB) & _MASK
        made += (state >> 16).to_bytes(_WORD_BYTES, "little")
    return made
