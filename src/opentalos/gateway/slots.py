"""Slots: places for concurrent calls, shared so that no tenant takes those of the others.

A tenant may hold as many places as stay free for others, so one gets half of them, two get a third
each, and so on. Callers without a key count by their address. Some places are kept for
administrators, who must be able to act while tenants flood the server.
"""

from opentalos.model.errors import ExcessivePending
from opentalos.model.identity import Principal


class Slots:
    """Counts the calls under way.

    Args: what: the calls, for the error; most: places; kept: those that only administrators take.
    """

    def __init__(self, what: str, most: int, kept: int) -> None:
        self._what, self._most, self._kept = what, most, kept
        self._used = 0
        self._held: dict[str, int] = {}  # by tenant; those without a call are left out

    @property
    def used(self) -> int:
        """Places that are taken."""
        return self._used

    def take(self, caller: Principal, network: str) -> "Slot":
        """A place for one call. Raises: ExcessivePending."""
        tenant = tenant_of(caller, network)
        held = self._held.get(tenant, 0)
        if caller.admin:
            if self._used >= self._most:
                raise ExcessivePending(f"too many {self._what} are under way: limit {self._most:,}")
        else:
            free = self._most - self._kept - self._used
            if held >= free:
                raise ExcessivePending(
                    f"too many {self._what} are under way: {held:,} of this caller, "
                    f"{max(free, 0):,} of {self._most:,} places are left for others; retry later"
                )
        self._used += 1
        self._held[tenant] = held + 1
        return Slot(self, tenant)

    def _free(self, tenant: str) -> None:
        self._used -= 1
        held = self._held[tenant] - 1
        if held:
            self._held[tenant] = held
        else:
            del self._held[tenant]


class Slot:
    """One place that is taken."""

    __slots__ = ("_slots", "_tenant")

    def __init__(self, slots: Slots, tenant: str) -> None:
        self._slots: Slots | None = slots
        self._tenant = tenant

    def pass_to(self, caller: Principal, network: str) -> None:
        """Count it for its caller, who was not known before. Raises: ExcessivePending."""
        slots = self._slots
        if slots is not None:
            self.free()
            self._tenant = slots.take(caller, network)._tenant
            self._slots = slots

    def free(self, _: object = None) -> None:
        """Give the place back; also a task's callback. Idempotent."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots._free(self._tenant)


def tenant_of(caller: Principal, network: str) -> str:
    """Whose calls these are: the tenant's, or of callers without a key their address's."""
    if caller.anonymous:
        return f"/{network}"  # no id of a principal begins so
    return caller.owner_id
