"""figures_of: a broker's counters and current state, for /metrics and measuring; no I/O."""

from collections import Counter
from typing import TYPE_CHECKING

from opentalos.broker.figures.values import ClusterFigures, Figures
from opentalos.broker.quota.metering import MeteringFigures
from opentalos.catalog.topics.topics import of_tenants, topic_by_uuid
from opentalos.log.counters import LogFigures

__all__ = ["ClusterFigures", "Figures", "LogFigures", "figures_of", "topic_by_uuid"]

if TYPE_CHECKING:
    from opentalos.broker.broker import Broker


def figures_of(broker: "Broker") -> Figures:
    """Read everything; costs some work per topic and lease, so not for every request."""
    context = broker.context
    topics, tenants = context.topics.all(), of_tenants(context.topics.all())
    tables, held = broker.catalogs.tables.all(), broker.messages.held
    return Figures(
        server=context.config.server,
        messages=broker.messages.counters,
        held=held._replace(gets=held.gets + broker.reads.fetches.waiting),
        long_work=broker.work.counters,
        long_work_waiting=broker.work.waiting,
        decoded_bytes=context.blocks.decoded_bytes,
        decoded_bytes_kept=context.blocks.kept_bytes,
        log=context.log.counters,
        log_now=context.log.figures,
        metering=broker.metering.figures if broker.metering is not None else MeteringFigures(),
        groups=broker.groups.counters,
        groups_now=broker.groups.directory.figures,
        kafka_members_refused=broker.kafka_groups.groups.memory.refused,
        group_lags=broker.group_lags.by_group,
        positions=broker.consumers.positions.counters,
        topics=len(tenants),
        partitions=sum(topic.consumer_partitions for topic in tenants),
        hot_partitions=broker.hot_partitions.count,
        unknown_topics=len(broker.unknown_topics.found),
        leftovers_removed=broker.unknown_topics.leftovers_removed,
        topic_names={topic.uuid: f"{topic.owner}/{topic.name}" for topic in topics},
        denials=context.authorizer.denials,
        quota_decisions=broker.partition_quotas.decided,
        tables=len(tables),
        stopped_streams=sum(
            not stream.live for table in tables for stream in table.streams.values()
        ),
        table_rates=broker.tables.rates,
        table_spaces=broker.catalogs.tables.spaces.figures(),
        shards=broker.shards.figures(),
        cluster=_cluster_of(broker),
    )


def _cluster_of(broker: "Broker") -> ClusterFigures | None:
    cluster = broker.membership
    if cluster is None:
        return None
    publication = cluster.controller.publication
    return ClusterFigures(
        member=cluster.membership.valid,
        leading=cluster.controller.leading,
        leader_known=cluster.state.leader is not None,
        servers=len(cluster.state.live()),
        partitions=Counter(publication.owners().values()),
        moving=len(publication.moved_from()),
        planned_moves=publication.planned_moves,
        takeovers=publication.takeovers,
    )
