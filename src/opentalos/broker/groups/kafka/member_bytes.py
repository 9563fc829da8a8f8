"""MemberBytes: what the members of Kafka clients' groups take in memory, and its limits.

Clients choose how large their metadata and assignments are, and members stay for a time after
their clients are gone. So each tenant has a limit, beside that of the server.
"""

import asyncio
import logging
import math
from collections import Counter
from typing import Final

from opentalos.model.settings.kafka import KafkaGroupLimits

_LOG = logging.getLogger("opentalos.group")
LOG_S: Final = 10.0  # between lines about members that were refused


class MemberBytes:
    """Bytes by tenant and in all; what groups take is set after each change of their members."""

    def __init__(self, limits: KafkaGroupLimits) -> None:
        self._limits = limits
        self._groups: dict[object, int] = {}
        self.by_tenant: Counter[str] = Counter()
        self.total = 0
        self.refused = 0  # members, since the start
        self._logged_s = -math.inf

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
                reason = (
                    f"members of consumer groups of Kafka clients, of {whose}: limit {limit} "
                    f"bytes, measured {taken}, and {growth} more are asked for"
                )
                self._note(reason)
                return reason
        return ""

    def _note(self, reason: str) -> None:
        self.refused += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s >= LOG_S:
            self._logged_s = now_s
            _LOG.warning("refused a member: %s; refused since the start: %d", reason, self.refused)

    def count(self, tenant: str, group: object, taken: int) -> None:
        """What a group takes now; 0: it is kept no more."""
        growth = taken - self._groups.pop(group, 0)
        if taken:
            self._groups[group] = taken
        self.total += growth
        self.by_tenant[tenant] += growth
        if not self.by_tenant[tenant]:
            del self.by_tenant[tenant]
