"""What a plain name means to a caller: one rule for topics and tables. Pure.

The catalogs of both use it. A plain name never means a resource of another owner, unless the caller
accepted its grant and has accepted no other one of that name. So nobody can place a resource under
a name that another tenant's programs already use.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Generic, Protocol, TypeVar

from opentalos.catalog.access.acceptance import ACCEPTED_MAX, EVERYBODY, Accepted, granted
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.governed import Governed
from opentalos.model.errors import BadRequest, QuotaExceeded
from opentalos.model.identity import Principal

SHOWN_MAX = 3  # granted resources that an error text names
EXAMINED_MAX = 1_000  # owners of one name that are checked for a grant, for an error text


class Named(Governed, Protocol):
    """A governed resource with the acceptances of its grants."""

    @property
    def accepted(self) -> Accepted: ...


G = TypeVar("G", bound=Named)
K = TypeVar("K")


class PlainNames(Generic[G]):
    """Resources by name, and by the principals that accepted a grant on them.

    A catalog adds and removes each resource as its record changes. A lookup is two or three
    accesses of a dict (hot path).
    """

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, G]] = {}  # name, then owner
        self._accepted: dict[tuple[str, str], dict[str, G]] = {}  # (principal, name), then owner

    def add(self, resource: G) -> None:
        """Add a resource; a former one of the same owner and name was removed before."""
        self._by_name.setdefault(resource.name, {})[resource.owner] = resource
        for principal in resource.accepted:
            self._accepted.setdefault((principal, resource.name), {})[resource.owner] = resource

    def remove(self, resource: G) -> None:
        """Remove a resource that was added."""
        _drop(self._by_name, resource.name, resource.owner)
        for principal in resource.accepted:
            _drop(self._accepted, (principal, resource.name), resource.owner)

    def owned(self, owner: str, name: str) -> G | None:
        """The resource of ``owner/name``."""
        owners = self._by_name.get(name)
        return owners.get(owner) if owners else None

    def meant(self, caller: Principal, name: str) -> G | None:
        """What the plain name means: the organisation's resource, then the caller's own, then the
        only one of another owner whose grant the caller accepted. Not yet authorised."""
        owners = self._by_name.get(name)
        if owners is None or caller.anonymous:
            return None
        for own in (caller.owner_id, caller.id):
            if own in owners:
                return owners[own]
        accepted = self.accepted(caller, name)
        if len(accepted) != 1:
            return None
        (resource,) = accepted.values()
        return resource if permissions_of(caller, resource) else None

    def accepted(self, caller: Principal, name: str) -> Mapping[str, G]:
        """The resources of that name whose grants the caller accepted, by owner."""
        return self._accepted.get((caller.id, name)) or {}

    def usable(self, caller: Principal, name: str) -> list[str]:
        """A few resources of that name on which the caller has rights, as ``owner/name``."""
        owners = self._by_name.get(name, {})
        found = (
            f"{owner}/{name}"
            for owner, resource in islice(owners.items(), EXAMINED_MAX)
            if permissions_of(caller, resource)
        )
        return sorted(islice(found, SHOWN_MAX))


def how_to_name(what: str, usable: list[str]) -> str:
    """The end of an error text for a plain name that means nothing; empty if nothing is usable.

    It names only resources on which the caller has rights, so it shows nothing else.
    """
    if not usable:
        return ""
    return f" among your own {what}s; write {' or '.join(usable)}, or accept the grant"


def accepted_by(names: PlainNames[G], caller: Principal, resource: G, accepted: bool) -> Accepted:
    """The acceptances of a resource after the caller accepted every grant it has on it, or took
    its acceptance back.

    Raises: BadRequest: the caller has no grant, or the name means another resource to it;
        QuotaExceeded: too many principals accepted.
    """
    others = {who: granted_to for who, granted_to in resource.accepted.items() if who != caller.id}
    if not accepted:
        return others
    full_name = f"{resource.owner}/{resource.name}"
    identifiers: tuple[str, ...] = ()
    if not caller.anonymous and resource.owner not in (caller.id, caller.organisation):
        identifiers = granted(resource, (*caller.identifiers, EVERYBODY))
    if not identifiers:
        raise BadRequest(
            f"could not accept a grant on {full_name}: nothing is granted to {caller.id}; "
            "its owner can grant it"
        )
    _check_free(names, caller, resource)
    if len(others) >= ACCEPTED_MAX:
        raise QuotaExceeded(
            f"accepted grants on {full_name}: limit {ACCEPTED_MAX}, measured {len(others)}; "
            f"write {full_name} instead"
        )
    return {**others, caller.id: identifiers}


def _check_free(names: PlainNames[G], caller: Principal, resource: G) -> None:
    """Raises: BadRequest: the plain name means another resource, or would then mean two."""
    name, owners = resource.name, list(names.accepted(caller, resource.name))
    meant = names.meant(caller, name)
    if meant is not None:
        owners.append(meant.owner)
    for owner in owners:
        if owner != resource.owner:
            raise BadRequest(
                f"could not accept the grant on {resource.owner}/{name}: {name} already means "
                f"{owner}/{name}; write {resource.owner}/{name}"
            )


def _drop(index: dict[K, dict[str, G]], key: K, owner: str) -> None:
    resources = index[key]
    del resources[owner]
    if not resources:
        del index[key]
