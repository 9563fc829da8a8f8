"""Observing: the use cases that show what servers and groups do."""

from collections.abc import Mapping

from opentalos.broker.cluster.cluster import Cluster
from opentalos.broker.context import BrokerContext
from opentalos.broker.figures.health import HealthService
from opentalos.broker.figures.scope import ScopeReader
from opentalos.broker.figures.service import SeriesService
from opentalos.broker.groups.explain import ExplainService
from opentalos.broker.groups.lag.ends import TopicEnds
from opentalos.group.coordinator import Coordinator


class Observing:
    """``series``: metrics over time. ``health``: alarms. ``explanations``: why groups do not
    move."""

    def __init__(
        self,
        context: BrokerContext,
        groups: Coordinator,
        cluster: Cluster | None,
        ends: TopicEnds,
    ) -> None:
        self._cluster = cluster
        scopes = ScopeReader(context, groups.rows)
        self.series = SeriesService(context, scopes, self._addresses)
        self.health = HealthService(context, self._addresses)
        self.explanations = ExplainService(context, groups, self.series, ends)

    def _addresses(self) -> Mapping[str, str]:
        """Of the servers of the cluster, by name."""
        live = self._cluster.state.live() if self._cluster is not None else {}
        return {name: record.address for name, record in live.items()}
