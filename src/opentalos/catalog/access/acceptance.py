"""Acceptances: which principals accepted a grant on a topic or table. Pure.

A principal that accepted a grant may use the resource by its plain name; see ``plain_names.py``.
An acceptance names the identifiers that the grant was given to (the principal, its team, its
organisation). Topics and tables pass their acceptances through ``still_granted``, so an acceptance
cannot outlive its grant: whoever revokes a grant revokes its acceptances.
"""

from collections.abc import Mapping

from opentalos.catalog.access.governed import Governed
from opentalos.model.errors import CorruptLog

ACCEPTED_MAX = 1_000  # principals per topic or table; bounds its record
EVERYBODY = "*"  # a right of every caller with a key, in an acceptance; no principal has this id
Accepted = Mapping[str, tuple[str, ...]]  # by principal: the identifiers that were granted to


def granted(resource: Governed, identifiers: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the identifiers that have a grant on the resource."""
    return tuple(name for name in identifiers if _is_granted(resource, name))


def still_granted(resource: Governed, accepted: Accepted) -> Accepted:
    """The acceptances whose grants exist."""
    if not accepted:
        return {}
    kept = {principal: granted(resource, names) for principal, names in accepted.items()}
    return {principal: names for principal, names in kept.items() if names}


def encode_accepted(accepted: Accepted) -> dict[str, list[str]]:
    """As JSON."""
    return {principal: list(names) for principal, names in accepted.items()}


def decode_accepted(record: object) -> Accepted:
    """From JSON. Raises: CorruptLog."""
    if not isinstance(record, dict):
        raise CorruptLog("invalid acceptances of grants: not an object")
    return {str(principal): tuple(map(str, names)) for principal, names in record.items()}


def _is_granted(resource: Governed, identifier: str) -> bool:
    if identifier == EVERYBODY:
        return resource.public_mask != 0
    bound = (resource.bound_organisation, resource.bound_team)
    return identifier in resource.masks or identifier in bound
