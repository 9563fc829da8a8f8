"""Addresses of servers: ``HOST:PORT``, or ``https://HOST:PORT`` where the port has TLS."""

TLS_SCHEME = "https://"


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
