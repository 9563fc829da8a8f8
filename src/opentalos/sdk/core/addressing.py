"""Chooses the server of a request: the current endpoint, or that of its partition; no I/O.

Source: docs/protocol/wire.md#partition-addressing. A TLS server withholds the map, so
every request goes to the endpoint.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

REFRESH_INTERVAL_S: Final = 1.0  # at least, between two requests for the map of a topic
TOPICS_MAX: Final = 1_000  # with a map; the oldest one is evicted
LEARNED_MAX: Final = 64  # servers from schedule maps, kept as further endpoints

_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_PORT_MAX: Final = 65_535


class Endpoints:
    """The current endpoint. After a failure the next one is used: configured ones first, then
    servers from schedule maps, so that the client survives the loss of every configured server."""

    def __init__(self, configured: Sequence[str]) -> None:
        self._urls = list(configured)
        self._configured = len(self._urls)
        self._used = 0

    @property
    def url(self) -> str:
        """The target of requests without a partition."""
        return self._urls[self._used]

    @property
    def count(self) -> int:
        """The number of endpoints."""
        return len(self._urls)

    def failed(self, url: str) -> None:
        """``url`` did not reply; if it is the current one, switch to the next."""
        if url == self.url:
            self._used = (self._used + 1) % len(self._urls)

    def learn(self, urls: Iterable[str]) -> None:
        """Replace the servers of earlier maps by these; the current one is kept."""
        used = self.url
        kept = self._urls[: self._configured]
        found = [used, *urls] if self._used >= self._configured else list(urls)
        for url in found:
            if url not in kept and len(kept) < self._configured + LEARNED_MAX:
                kept.append(url)
        self._urls, self._used = kept, kept.index(used)


@dataclass(slots=True)
class _TopicMap:
    """The servers of the partitions of a topic."""

    urls: dict[int, str] = field(default_factory=dict)
    asked_s: float | None = None  # last request for the map
    stale: bool = True  # request it again when allowed


class Addressing:
    """The schedule maps of the topics in use. Servers use the scheme of the endpoints."""

    def __init__(self, scheme: str, interval_s: float = REFRESH_INTERVAL_S) -> None:
        self._scheme, self._interval_s = scheme, interval_s
        self._maps: dict[str, _TopicMap] = {}

    def url(self, resource: str, partition: int) -> str | None:
        """The server of a partition; None: unknown, use the endpoint."""
        known = self._maps.get(resource)
        if known is None:
            return None
        url = known.urls.get(partition)
        if url is None and known.urls:
            known.stale = True  # partitions were added, or this server was dropped
        return url

    def unasked(self, resource: str) -> bool:
        """Whether the map of the topic was never requested."""
        return resource not in self._maps

    def due(self, resource: str, now_s: float) -> bool:
        """Whether to request the map of the topic now; if so, it counts as requested."""
        known = self._maps.get(resource)
        if known is None:
            if len(self._maps) >= TOPICS_MAX:
                del self._maps[next(iter(self._maps))]
            known = self._maps[resource] = _TopicMap()
        if not known.stale:
            return False
        if known.asked_s is not None and now_s - known.asked_s < self._interval_s:
            return False
        known.asked_s = now_s
        return True

    def learn(self, resource: str, addresses: Mapping[int, str]) -> list[str]:
        """Store a map (partition to ``host:port``). Returns: its servers. An invalid address is
        left out: its partition uses the endpoint."""
        known = self._maps.setdefault(resource, _TopicMap())
        known.urls = {
            partition: f"{self._scheme}://{address}"
            for partition, address in addresses.items()
            if _is_address(address)
        }
        known.stale = False
        return list(dict.fromkeys(known.urls.values()))

    def distrust(self, resource: str) -> None:
        """A reply reports that the map is stale; it is used until a new one arrives."""
        known = self._maps.get(resource)
        if known is not None:
            known.stale = True

    def drop_partition(self, resource: str, partition: int) -> None:
        """Its server does not serve it: use the endpoint until a new map arrives."""
        known = self._maps.get(resource)
        if known is not None:
            known.urls.pop(partition, None)
            known.stale = True

    def drop_server(self, url: str) -> None:
        """A server does not reply: use the endpoint for its partitions until a new map arrives."""
        for known in self._maps.values():
            gone = [partition for partition, server in known.urls.items() if server == url]
            for partition in gone:
                del known.urls[partition]
                known.stale = True


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[1]) <= _PORT_MAX
