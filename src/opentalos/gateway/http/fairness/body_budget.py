"""Shares of the memory for request bodies: no caller may take what the others need.

A small body counts in the whole budget only, one for each connection. A larger one counts in one
of three pools as well, by what is known of its caller when the head of the request is complete:

- strangers: no live key is named. A small part of the budget, shared by their addresses.
- claimed: a live key is named, but nothing from this address was signed with it so far; key ids are
  no secrets. Half of the budget, shared by the addresses.
- proven: the address has sent a valid signature of the key before. Shared by principals.

In a pool owners have shares (``pool.py``). On a port without principals, addresses share the whole
budget.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from opentalos.gateway.http.fairness.pool import Hold, Pool
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


class BodyBudget:
    """The shares of one port. ``identify`` is set once principals are known."""

    def __init__(self, limits: HttpLimits) -> None:
        most, body = limits.bodies_bytes_total_max, limits.body_bytes_max
        self._strangers = Pool(max(body, most // _STRANGERS))
        self._claimed = Pool(max(body, most // _CLAIMED))
        self._proven = Pool(most)
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
