"""Bounds the changes that wait for their topics, per shard and for a whole server."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from opentalos.broker.tables.stream.outbox import Outbox
from opentalos.model.settings.tables import SdsLimits

SUM_S: Final = 0.25  # between two sums over all shards


class OutboxBudget:
    """The budget of one server. Half is reserved for the open shards in equal parts, so that one
    topic that rejects puts does not stop every table; the other half is shared.

    Sums are up to ``SUM_S`` old, so shards may exceed the budget for that long, by one group each.
    """

    def __init__(self, limits: SdsLimits, outboxes: Callable[[], Iterable[Outbox]]) -> None:
        self._limits, self._outboxes = limits, outboxes
        self._own_entries = self._own_bytes = 0  # reserved for each shard
        self._shared_entries = self._shared_bytes = 0  # in use
        self._next_s = 0.0

    def why_full(self, outbox: Outbox) -> str:
        """Why a shard must not add entries; empty: it may."""
        limits = self._limits
        if outbox.entries >= limits.pending_entries_max or outbox.bytes >= limits.pending_bytes_max:
            return "its topic is slower than its table"
        self._sum()
        entries_max = limits.server_pending_entries_max - limits.server_pending_entries_max // 2
        bytes_max = limits.server_pending_bytes_max - limits.server_pending_bytes_max // 2
        if (outbox.entries >= self._own_entries and self._shared_entries >= entries_max) or (
            outbox.bytes >= self._own_bytes and self._shared_bytes >= bytes_max
        ):
            return "the changes pending on this server reached their limit"
        return ""

    def _sum(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._next_s:
            return
        self._next_s = now_s + SUM_S
        limits, boxes = self._limits, list(self._outboxes())
        parts = 2 * max(1, len(boxes))
        self._own_entries = limits.server_pending_entries_max // parts
        self._own_bytes = limits.server_pending_bytes_max // parts
        self._shared_entries = sum(max(0, box.entries - self._own_entries) for box in boxes)
        self._shared_bytes = sum(max(0, box.bytes - self._own_bytes) for box in boxes)
