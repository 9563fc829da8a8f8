"""DruidArchive: series from a broker of Druid."""

import json
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from opentalos.adapters.druid.sql import AMOUNT, BUCKET, ROWS_MAX, STEP, statement
from opentalos.model.errors import BadRequest, StoreUnavailable
from opentalos.ports.series_archive import ArchivePlace, ArchiveQuery
from opentalos.wire.metrics.sketch import percentile

TIMEOUT_S: Final = 10.0  # of a query; people wait for it
ANSWER_BYTES_MAX: Final = 64 << 20
_SHOWN_CHARS_MAX: Final = 300
_Rows = list[dict[str, Any]]


class DruidArchive:
    """See SeriesArchive. Druid's SQL API is POST /druid/v2/sql. No connection stays open."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url.rstrip("/") + "/druid/v2/sql"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def read(self, query: ArchiveQuery) -> Mapping[ArchivePlace, Mapping[int, float]]:
        """See SeriesArchive."""
        found = statement(query)
        body = {"query": found.text, "parameters": list(found.parameters)}
        rows = await self._rows({**body, "resultFormat": "object"})
        if len(rows) >= ROWS_MAX:
            raise BadRequest("the OLAP store has too many rows: use a longer step")
        return _amounts(query, rows)

    async def close(self) -> None:
        """Nothing is open."""

    async def _rows(self, body: dict[str, Any]) -> _Rows:
        try:
            async with (
                aiohttp.ClientSession(timeout=self._timeout) as session,
                session.post(self._url, json=body, allow_redirects=False) as reply,
            ):
                content = bytearray()
                async for part in reply.content.iter_chunked(64 << 10):
                    content += part
                    if len(content) > ANSWER_BYTES_MAX:
                        raise BadRequest("the OLAP store's answer is too large: use a longer step")
                status, document = reply.status, json.loads(content)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            reason = str(error) or "it is too slow"
            raise StoreUnavailable(f"Druid at {self._url} is unavailable: {reason}") from error
        if status != 200 or not isinstance(document, list):
            said = " ".join(str(document).split())[:_SHOWN_CHARS_MAX]
            kind = BadRequest if 400 <= status < 500 else StoreUnavailable
            raise kind(f"Druid at {self._url} answered {status}: {said}")
        return document


def _amounts(query: ArchiveQuery, rows: _Rows) -> Mapping[ArchivePlace, Mapping[int, float]]:
    """Rows by place and step; counts by bucket become a percentile."""
    found: dict[ArchivePlace, dict[int, float]] = {}
    sketches: dict[tuple[ArchivePlace, int], dict[int, int]] = {}
    for row in rows:
        named = {name: row[f"of_{name}"] for name in query.split}
        place, step_ms = ArchivePlace(**named), int(row.get(STEP) or 0)
        if query.percent is None:
            found.setdefault(place, {})[step_ms] = float(row[AMOUNT] or 0.0)
        else:
            sketches.setdefault((place, step_ms), {})[int(row[BUCKET])] = int(row[AMOUNT])
    for (place, step_ms), counts in sketches.items():
        value = percentile(counts, query.percent or 0.0)
        if value is not None:
            found.setdefault(place, {})[step_ms] = value
    return found
