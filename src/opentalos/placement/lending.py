"""Lending: a restarting server's partitions are served by others and return to it. Pure.

A loan is remembered with the assignment, since the ring alone does not say where a partition was.
It ends when its server is back and takes the partition, when the server is to be emptied, or when
it is neither alive nor reserved any more; then the partition stays where it is.
"""

from collections.abc import Callable, Mapping, Set

from opentalos.model.message import PartitionKey
from opentalos.placement.values import Situation


class Loans:
    """The loans of one plan. ``ring``: its members. ``take``: servers that may get partitions."""

    def __init__(self, situation: Situation, ring: Set[str], take: Set[str]) -> None:
        self._candidates = situation.candidates
        # If all are leaving, each keeps what it has.
        self._willing = {name for name in take if not situation.leaves(name)}
        self._lent = {
            key: lender
            for key, lender in situation.lent.items()
            if lender in ring and not self._candidates[lender].draining
        }

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._lent

    def lender(self, key: PartitionKey) -> str:
        """The server to which a lent partition returns."""
        return self._lent[key]

    def left(self, key: PartitionKey, owner: str) -> None:
        """A partition leaves a server: it is lent if that one is restarting and has no other's."""
        candidate = self._candidates.get(owner)
        if candidate is not None and candidate.lending:
            self._lent.setdefault(key, owner)

    def goal(self, key: PartitionKey, owner: str, spare: Callable[[], str]) -> str:
        """Who is to serve a partition, as far as loans are concerned. ``spare``: who else may."""
        lender = self._lent.get(key)
        if lender is not None and lender in self._willing:
            return lender
        stays = owner in self._willing or not self._willing
        if lender is not None or self._candidates[owner].lending:
            return owner if stays else spare()
        return owner

    def of(self, owners: Mapping[PartitionKey, str]) -> Mapping[PartitionKey, str]:
        """The loans of these partitions; one that is where it belongs is none."""
        return {
            key: self._lent[key]
            for key, owner in owners.items()
            if key in self._lent and self._lent[key] != owner
        }
