"""MemberBytes: what the members of Kafka clients' groups take in memory, and its limits.

Clients choose how large their metadata and assignments are, and members stay for a time after
their clients are gone. So each tenant has a limit, beside that of the server.
"""

from collections import Counter

from opentalos.model.settings.kafka import KafkaGroupLimits


class MemberBytes:
    """Bytes by tenant and in all; what groups take is set after each change of their members."""

    def __init__(self, limits: KafkaGroupLimits) -> None:
        self._limits = limits
        self._groups: dict[object, int] = {}
        self.by_tenant: Counter[str] = Counter()
        self.total = 0

    def refusal(self, tenant: str, growth: int) -> str:
        """Why members of a tenant may not take so many bytes more; empty: they may."""
        if growth <= 0:
            return ""
        limits = self._limits
        for whose, taken, limit in (
            (f"tenant {tenant}", self.by_tenant[tenant], limits.members_bytes_of_tenant_max),
            ("this server", self.total, limits.members_bytes_max),
        ):
            if taken + growth > limit:
                return (
                    f"members of consumer groups of Kafka clients, of {whose}: limit {limit} "
                    f"bytes, measured {taken}, and {growth} more are asked for"
                )
        return ""

    def count(self, tenant: str, group: object, taken: int) -> None:
        """What a group takes now; 0: it is kept no more."""
        growth = taken - self._groups.pop(group, 0)
        if taken:
            self._groups[group] = taken
        self.total += growth
        self.by_tenant[tenant] += growth
        if not self.by_tenant[tenant]:
            del self.by_tenant[tenant]
