"""How many groups each tenant may have on a topic: others never take the owner's room."""

from collections.abc import Mapping

from opentalos.group.row_format import GroupRow
from opentalos.model.errors import TooManyConsumers
from opentalos.model.limits import GroupLimits


def check_share(
    limits: GroupLimits, groups: Mapping[str, GroupRow], tenant: str, owner: str
) -> None:
    """Raises: TooManyConsumers: ``tenant`` may have no other group on a topic of ``owner``."""
    mine = sum(row.tenant == tenant for row in groups.values())
    if tenant == owner:
        _check("the topic's owner", limits.groups_max, mine)
        return
    _check(f"tenant {tenant} on the topic", limits.groups_of_tenant_max, mine)
    others = sum(row.tenant != owner for row in groups.values())
    _check("all tenants but the topic's owner", limits.groups_max, others)


def _check(whose: str, limit: int, measured: int) -> None:
    if measured >= limit:
        raise TooManyConsumers(
            f"consumer groups of {whose}: limit {limit}, measured {measured}; "
            "delete groups that are not used any more"
        )
