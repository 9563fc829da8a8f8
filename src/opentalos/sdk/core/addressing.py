"""Where a request goes: the endpoint in use, or the server of its partition; no I/O.

Source: docs/protocol/wire.md#partition-addressing. A TLS server withholds the map, so
everything goes to the endpoint.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

REFRESH_INTERVAL_S: Final = 1.0  # between two looks at one topic's map, whatever happens
TOPICS_MAX: Final = 1_000  # with a map; the one asked for longest ago is forgotten
LEARNED_MAX: Final = 64  # servers that maps named, kept as further endpoints

_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_PORT_MAX: Final = 65_535


class Endpoints:
    """The endpoint in use. After a failure the next one: the configured ones, then servers that
    schedule maps named, so that a client outlives the end of every configured server."""

    def __init__(self, configured: Sequence[str]) -> None:
        self._urls = list(configured)
        self._configured = len(self._urls)
        self._used = 0

    @property
    def url(self) -> str:
        """Where to send what belongs to no partition."""
        return self._urls[self._used]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._urls)

    def failed(self, url: str) -> None:
        """``url`` did not answer; if it is the one in use, the next one is used from now on."""
        if url == self.url:
            self._used = (self._used + 1) % len(self._urls)

    def learn(self, urls: Iterable[str]) -> None:
        """Servers that a map named replace those of former maps; one in use stays."""
        used = self.url
        kept = self._urls[: self._configured]
        found = [used, *urls] if self._used >= self._configured else list(urls)
        for url in found:
            if url not in kept and len(kept) < self._configured + LEARNED_MAX:
                kept.append(url)
        self._urls, self._used = kept, kept.index(used)


@dataclass(slots=True)
class _TopicMap:
    """Servers of one topic's partitions."""

    urls: dict[int, str] = field(default_factory=dict)
    asked_s: float | None = None  # when the map was asked for last
    stale: bool = True  # something says that another look is worth it


class Addressing:
    """The schedule maps of the topics in use. Servers are dialled by the endpoints' scheme."""

    def __init__(self, scheme: str, interval_s: float = REFRESH_INTERVAL_S) -> None:
        self._scheme, self._interval_s = scheme, interval_s
        self._maps: dict[str, _TopicMap] = {}

    def url(self, resource: str, partition: int) -> str | None:
        """Server of a partition; None: not known, so the endpoint is to be asked."""
        known = self._maps.get(resource)
        if known is None:
            return None
        url = known.urls.get(partition)
        if url is None and known.urls:
            known.stale = True  # the topic has grown, or this server was dropped
        return url

    def unasked(self, resource: str) -> bool:
        """Whether the topic's map was never asked for."""
        return resource not in self._maps

    def due(self, resource: str, now_s: float) -> bool:
        """Whether to ask for the topic's map now; if so it counts as asked."""
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
        """Take a map (partition to ``host:port``) over; its servers. A strange address is left
        out: its partition goes to the endpoint."""
        known = self._maps.setdefault(resource, _TopicMap())
        known.urls = {
            partition: f"{self._scheme}://{address}"
            for partition, address in addresses.items()
            if _is_address(address)
        }
        known.stale = False
        return list(dict.fromkeys(known.urls.values()))

    def distrust(self, resource: str) -> None:
        """A reply says that the topic's map is out of date; it is used until there is a new one."""
        known = self._maps.get(resource)
        if known is not None:
            known.stale = True

    def drop_partition(self, resource: str, partition: int) -> None:
        """Its server does not serve it (any more): the endpoint is asked until a new map."""
        known = self._maps.get(resource)
        if known is not None:
            known.urls.pop(partition, None)
            known.stale = True

    def drop_server(self, url: str) -> None:
        """A server does not answer: the endpoint is asked for its partitions until a new map."""
        for known in self._maps.values():
            gone = [partition for partition, server in known.urls.items() if server == url]
            for partition in gone:
                del known.urls[partition]
                known.stale = True


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[1]) <= _PORT_MAX
