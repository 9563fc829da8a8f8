"""Shares of the memory for request bodies: no caller may take what the others need.

A small body counts in the whole budget only, one for each connection. A larger one counts in one
of three pools as well, by what is known of its caller when the head of the request is complete:

- strangers: no live key is named. A small part of the budget, shared by their addresses.
- claimed: a live key is named, but nothing from this address was signed with it so far; key ids are
  no secrets. Half of the budget, shared by the addresses.
- proven: the address has sent a valid signature of the key before. Shared by principals.

In a pool an owner may hold as much as stays free for the others, so one owner gets half of it, two
get a third each, and so on: there is always something left for the next. Its only body always fits
while the pool does. On a port without principals, addresses share the whole budget.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from opentalos.model.limits import HttpLimits

UNSHARED_BYTES = 16 << 10  # a body of this size counts in no share, unless it is pipelined
_UNSHARED = 2  # part of the budget that all connections fill with such bodies at most
_STRANGERS, _CLAIMED = 8, 2  # parts of the budget


class Claim(NamedTuple):
    """Who a head says that it is from. ``owner``: the principal of the key; "": no live key."""

    owner: str = ""
    proven: bool = False


class Identify(Protocol):
    """Looks up the key of a head, without checking its signature."""

    def __call__(self, headers: Mapping[bytes, bytes], peer: str) -> Claim: ...


class _Pool:
    """Bytes of one kind of callers, by owner."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max, self.used = bytes_max, 0
        self.held: dict[str, int] = {}  # owners without bytes are left out

    def fits(self, owner: str, count: int, own: int) -> bool:
        """Args: own: bytes of the same body that the owner holds already."""
        used, before = self.used + count, self.held.get(owner, 0)
        if used > self.bytes_max:
            return False
        return before + count <= self.bytes_max - used or before == own

    def add(self, owner: str, count: int) -> None:
        self.used += count
        held = self.held.get(owner, 0) + count
        if held:
            self.held[owner] = held
        else:
            del self.held[owner]


class Hold:
    """What one large body takes of its pool."""

    __slots__ = ("_count", "_owner", "_pool")

    def __init__(self, pool: _Pool, owner: str) -> None:
        self._pool, self._owner, self._count = pool, owner, 0

    def fits(self, count: int) -> bool:
        """Whether so many further bytes may be read."""
        return self._pool.fits(self._owner, count, self._count)

    def take(self, count: int) -> bool:
        """Count these bytes; False: there is no room for them now."""
        if not self.fits(count):
            return False
        self._pool.add(self._owner, count)
        self._count += count
        return True

    def end(self) -> None:
        """Return everything."""
        if self._count:
            self._pool.add(self._owner, -self._count)
            self._count = 0


class BodyBudget:
    """The shares of one port. ``identify`` is set once principals are known."""

    def __init__(self, limits: HttpLimits) -> None:
        most, body = limits.bodies_bytes_total_max, limits.body_bytes_max
        self._strangers = _Pool(max(body, most // _STRANGERS))
        self._claimed = _Pool(max(body, most // _CLAIMED))
        self._proven = _Pool(most)
        self.unshared_bytes = min(UNSHARED_BYTES, most // (_UNSHARED * limits.connections_max))
        self.identify: Identify | None = None

    def hold(self, headers: Mapping[bytes, bytes], peer: str, network: str) -> Hold:
        """An empty hold for a request with this head. Args: network: that counts as one address."""
        if self.identify is None:
            return Hold(self._proven, network)
        claim = self.identify(headers, peer)
        if not claim.owner:
            return Hold(self._strangers, network)
        if not claim.proven:
            return Hold(self._claimed, network)
        return Hold(self._proven, claim.owner)
