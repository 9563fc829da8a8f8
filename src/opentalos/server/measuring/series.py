"""SeriesSampling: gives each interval's measurements to the series in memory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opentalos.broker.figures.rollup import Rollup, Sample
from opentalos.server.measuring.rows import TRAFFIC_FIRST, PartitionId

if TYPE_CHECKING:
    from opentalos.server.measuring.measuring import Measured


class SeriesSampling:
    """Reads counters that ``Measuring`` does not need. ``rollup`` None: there are no series."""

    def __init__(self, rollup: Rollup | None) -> None:
        self._rollup = rollup
        self._failures: Counter[str] = Counter()  # at the last sample

    @property
    def enabled(self) -> bool:
        """Whether series are kept."""
        return self._rollup is not None

    def add(
        self, at_ms: int, grown: Mapping[PartitionId, Sequence[int]], measured: "Measured"
    ) -> None:
        """The interval that ended at ``at_ms``. ``grown``: traffic by partition."""
        if self._rollup is None:
            return
        failures = measured.http.traffic.failures + Counter(measured.kafka.failures_by_error)
        thrift, sds = measured.thrift, measured.sds
        sample = Sample(
            traffic={place: counts[TRAFFIC_FIRST:] for place, counts in grown.items()},
            errors=failures - self._failures,
            latencies={
                "put": thrift.put_s,
                "fetch": thrift.get_s,
                "table_read": sds.read_s,
                "table_write": sds.write_s,
            },
            lags=measured.broker.group_lags.by_partition,
        )
        self._failures = failures
        self._rollup.add(at_ms, sample)
