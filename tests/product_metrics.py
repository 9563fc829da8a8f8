"""Every metric of a server and its labels, from the product's own families.

The families are made from figures that are all present, such as a cluster's and a certificate's,
so no server needs to run.
"""

from collections.abc import Iterator
from typing import NamedTuple
from unittest.mock import MagicMock, patch

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric

from opentalos.gateway.metrics import families
from opentalos.gateway.metrics.families import ServerCollector
from opentalos.gateway.metrics.sources import QUOTA_ERRORS, Sources
from opentalos.group.directory import GroupOnTopic
from opentalos.model.histogram import Histogram

BOUNDS = (0.001, 1.0)
DECISIONS = ("approve", "reject", "human")


class Series(NamedTuple):
    """The name of a sample and its labels."""

    name: str
    labels: dict[str, str]


def product_series() -> list[Series]:
    """A series for each metric, or for each value of its labels that is known beforehand."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    PlatformCollector(registry=registry)
    return [
        Series(sample.name, dict(sample.labels))
        for family in (*_families(), *registry.collect())
        for sample in family.samples
    ]


def _families() -> Iterator[Metric]:
    histogram = Histogram(BOUNDS)
    figures = MagicMock()
    figures.quota_decisions = dict.fromkeys(DECISIONS, 1)
    figures.cluster.partitions = {"": 0, "server": 1}
    figures.log.group_blocks = figures.log.commit_s = histogram
    figures.log.journal.frame_groups = figures.log.journal.commit_s = histogram
    figures.topic_names = {"u1": "owner/topic"}
    figures.group_lags = {GroupOnTopic("u1", "owner/group"): 1}
    figures.log_now.traffic_by_topic.return_value = {"u1": _Traffic}
    sources = MagicMock(spec_set=[*Sources.__dataclass_fields__])
    for calls in (sources.thrift, sources.sds, sources.rest):
        for name in ("put_s", "get_s", "read_s", "write_s"):
            getattr(calls, name).coarse.return_value = histogram
    sources.thrift.calls, sources.sds.calls = 1, {"put": 1}
    sources.http.traffic.failures = {
        "PartitionNotExist": 1,
        **dict.fromkeys(QUOTA_ERRORS, 1),
    }
    with patch.object(families, "figures_of", return_value=figures):
        yield from ServerCollector(sources, topics_max=1, groups_max=1).collect()


class _Traffic:
    """Of a topic."""

    messages_in = bytes_in = messages_out = bytes_out = 1
