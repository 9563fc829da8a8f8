"""Partitions that wait until their shares leave room, found without a look at each of them."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from opentalos.log.scheduling.shares import Share

_T = TypeVar("_T")
May = Callable[[Share, Share | None], bool]  # of a tenant and a topic; None: of any topic


class Waiting(Generic[_T]):
    """What waits, by tenant and topic; it is in order within a topic, the others take turns.

    A share that is used up is passed over with all that wait for it. So ``take`` costs as much as
    there are used up shares, each of which has something under way, however many partitions wait.
    """

    def __init__(self) -> None:
        self._tenants: dict[Share, dict[Share, deque[_T]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_T]:
        for topics in self._tenants.values():
            for items in topics.values():
                yield from items

    def add(self, tenant: Share, topic: Share, item: _T) -> None:
        """Let ``item`` wait after those of its topic."""
        self._tenants.setdefault(tenant, {}).setdefault(topic, deque()).append(item)
        self._count += 1

    def take(self, may: May) -> _T | None:
        """Remove and return the next whose tenant and topic ``may``; None: none of them."""
        for tenant, topics in self._tenants.items():
            if not may(tenant, None):
                continue
            for topic, items in topics.items():
                if may(tenant, topic):
                    self._count -= 1
                    del topics[topic], self._tenants[tenant]
                    item = items.popleft()
                    if items:
                        topics[topic] = items  # after the other topics
                    if topics:
                        self._tenants[tenant] = topics
                    return item
        return None

    def clear(self) -> None:
        """Forget all of them."""
        self._tenants.clear()
        self._count = 0
