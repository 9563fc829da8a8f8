"""The figures of a broker at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from opentalos.broker.long_work import LongWorkCounters
from opentalos.broker.messaging.message_counters import HeldCalls, MessageCounters
from opentalos.broker.messaging.position_events import PositionCounters
from opentalos.broker.quota.metering import MeteringFigures
from opentalos.broker.tables.shard.shards import ShardFigures
from opentalos.catalog.tables.rates import TableRateCounters
from opentalos.catalog.tables.space import SpaceFigures
from opentalos.group.coordinator import GroupCounters
from opentalos.group.directory import GroupFigures, GroupOnTopic
from opentalos.log.counters import LogCounters, LogFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """The cluster as this server sees it."""

    member: bool  # this server's session is valid
    leading: bool
    leader_known: bool
    servers: int  # registered
    partitions: Mapping[str, int]  # assigned, by server; "": to no server
    moving: int  # planned moves under way
    planned_moves: int  # published by this server as the leader
    takeovers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A broker at one moment."""

    server: str
    messages: MessageCounters
    held: HeldCalls
    long_work: LongWorkCounters
    long_work_waiting: int  # calls
    decoded_bytes: int  # decompressed for callers that read single messages
    decoded_bytes_kept: int  # in memory
    log: LogCounters
    log_now: LogFigures
    metering: MeteringFigures
    groups: GroupCounters
    groups_now: GroupFigures
    kafka_members_refused: int
    group_lags: Mapping[GroupOnTopic, int]  # messages
    positions: PositionCounters
    topics: int  # of tenants
    partitions: int  # of theirs
    hot_partitions: int  # topics most of whose messages one partition takes
    unknown_topics: int  # stored, and not in the catalogue
    leftovers_removed: int  # files of deleted topics
    topic_names: Mapping[str, str]  # by uuid
    denials: int
    quota_decisions: Mapping[str, int]  # by outcome
    tables: int
    stopped_streams: int  # with a gap, of all tables
    table_rates: TableRateCounters
    table_spaces: SpaceFigures  # of this server
    shards: ShardFigures  # of this server
    cluster: ClusterFigures | None  # None: a single server
