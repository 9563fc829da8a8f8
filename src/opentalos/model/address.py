"""Addresses of servers: ``HOST:PORT``, or ``https://HOST:PORT`` where the port has TLS.

And of clients: what counts as one client, and what is on this machine.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

TLS_SCHEME = "https://"
IPV6_PREFIX_BITS: Final = 64  # one customer of a provider has at least as many addresses
_CACHED = 10_000


def has_tls(address: str) -> bool:
    """Whether the port at an address is to be dialled with TLS."""
    return address.startswith(TLS_SCHEME)


def authority(address: str) -> str:
    """``HOST:PORT`` of an address."""
    return address.removeprefix(TLS_SCHEME)


def split_address(address: str) -> tuple[str, int]:
    """Host, without the brackets of IPv6, and port. Raises: ValueError: it is no address."""
    host, _, port = authority(address).rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise ValueError(f"{address!r} is no address of a server")
    return host.strip("[]"), int(port)


@lru_cache(maxsize=_CACHED)
def network_of(address: str) -> str:
    """The address, or the /64 network of an IPv6 address, of which one client has all addresses."""
    ip = _parsed(address)
    if not isinstance(ip, IPv6Address) or ip.is_loopback:
        return address if ip is None else str(ip)
    shift = ip.max_prefixlen - IPV6_PREFIX_BITS
    return f"{IPv6Address(int(ip) >> shift << shift)}/{IPV6_PREFIX_BITS}"


@lru_cache(maxsize=_CACHED)
def is_loopback(address: str) -> bool:
    """Whether the address is of this machine."""
    ip = _parsed(address)
    return ip is not None and ip.is_loopback


def is_local(peer: str, own: object) -> bool:
    """Whether a connection does not leave this machine. Args: own: its address here, as a socket
    names it."""
    return is_loopback(peer) or (isinstance(own, tuple) and bool(peer) and own[:1] == (peer,))


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return mapped or ip
