"""BriefCache: what is costly to read, for so short a time that nobody sees its age."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class _Entry(Generic[V]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at_s: float = float("-inf")
    value: V | None = None


class BriefCache(Generic[K, V]):
    """Callers that ask for the same at the same time share one read; a failed one is not kept.

    Args: kept_s: how old a value may be; items_max: when they are exceeded, the one that was
    asked for longest ago is dropped.
    """

    def __init__(self, kept_s: float, items_max: int) -> None:
        self._kept_s, self._items_max = kept_s, items_max
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()

    async def get(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """The value of the key, read now unless it is known. Raises: what ``read`` raises."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry()
            if len(self._entries) > self._items_max:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        async with entry.lock:
            now_s = asyncio.get_running_loop().time()
            if entry.value is None or now_s - entry.at_s > self._kept_s:
                entry.value, entry.at_s = await read(), now_s
            return entry.value
