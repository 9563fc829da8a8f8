"""SeriesSampling: gives each interval's measurements to the series in memory."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from opentalos.broker.figures.rollup import Lags, Place, Rollup, Sample
from opentalos.ports.series_archive import SeriesArchive
from opentalos.server.measuring.rows import TRAFFIC_FIRST, PartitionId
from opentalos.wire.metrics.latency import Latency


class SeriesSampling:
    """Turns counters that grow into samples. ``rollup`` None: there are no series."""

    def __init__(self, rollup: Rollup | None) -> None:
        self._rollup = rollup
        self._failures: Counter[str] = Counter()  # at the last sample

    @property
    def enabled(self) -> bool:
        """Whether series are kept."""
        return self._rollup is not None

    async def add(
        self,
        at_ms: int,
        grown: Mapping[PartitionId, Sequence[int]],
        failures: Counter[str],
        latencies: Mapping[str, Latency],
        lags: Lags,
    ) -> None:
        """The interval that ended at ``at_ms``.

        ``grown``: traffic by partition; ``failures``: ever, by the error's name.
        """
        if self._rollup is None:
            return
        traffic: dict[Place, Sequence[int]] = {
            place: counts[TRAFFIC_FIRST:] for place, counts in grown.items()
        }
        errors, self._failures = failures - self._failures, failures
        sample = Sample(traffic=traffic, errors=errors, latencies=latencies, lags=lags)
        await self._rollup.add(at_ms, sample, _turn)


async def _turn() -> None:
    await asyncio.sleep(0)


def open_archive(url: str) -> SeriesArchive | None:
    """The OLAP store at a URL; None: there is none, and its library is not loaded."""
    if not url:
        return None
    from opentalos.adapters.druid.archive import DruidArchive

    return DruidArchive(url)
