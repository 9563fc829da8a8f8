"""Mutants of a cluster; see ``mutants`` for what a mutant proves.

A guard that storage fencing makes redundant is broken together with the fencing.

Equivalent mutants, which no client can distinguish from the real code:

- A take-over that does not wait until the former owner of a planned move has sealed: recovery
  fences it wherever it is, so the move costs a pause and nothing else.
- A lapsed session that is noticed although nothing is dropped, with fencing on: the next commit is
  fenced, and groups decide by compare-and-set.
- A controller that continues after it was replaced: an assignment never gives the right to write,
  and each write of one expects what it was made from, so it can only cause moves.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import Mutant, _names, no_fence_at_recover

from opentalos.broker.cluster.cluster import Cluster
from opentalos.broker.cluster.cluster_ownership import ClusterOwnership
from opentalos.broker.cluster.control.roster import Roster
from opentalos.broker.cluster.handover import Handover
from opentalos.broker.cluster.membership import Membership
from opentalos.broker.cluster.ownership_guard import ClusterOwnershipGuard
from opentalos.group.row_writer import RowWriter
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import ManifestStore, VersionedManifest
from opentalos.log.partition import jobs as partition_jobs
from opentalos.log.partition import log_end
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.segment import writer as segment_writer
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.writer import OpenSegment
from opentalos.model.errors import NotOwner, OutcomeUnknown, PartitionNotServing, TalosError
from opentalos.model.limits import GroupLimits
from opentalos.placement.spread import Spread
from opentalos.ports.row_store import ABSENT
from opentalos.testing.simulation.checks.group import workers
from opentalos.testing.simulation.cluster.server import ClusterServer
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
)

CHAOS_S = 10.0
HOPS_MAX = 2  # of a mutant that forwards again; more would show nothing new
ZOMBIES = ClusterConfig(
    chaos_s=CHAOS_S,
    think_s=0.12,
    session_s=1.0,
    metered=0.0,
    tabled=0.0,
    files=FileFaults(commit_slow=0.05),
    meta=MetaFaults(),
    rows=RowFaults(),
    cluster=ClusterFaults(pause=0.7, isolate=0.5, cut_meta=0.3, pause_s=4.0, cut_s=4.0),
)
# Openings take longer than a session and than a pause, so several servers open a partition at once.
RIVAL_OPENINGS = replace(
    ZOMBIES,
    files=FileFaults(recover_slow=1.0, slow_s=4.0, commit_slow=0.05),
    cluster=ClusterFaults(pause=0.9, isolate=0.3, crash=0.3, pause_s=3.0, cut_s=3.0),
)
CUT_OFF = replace(ZOMBIES, think_s=0.08, cluster=ClusterFaults(cut_meta=0.9, cut_s=8.0))
LOST_ANSWERS = replace(RIVAL_OPENINGS, meta=MetaFaults(unknown=0.25))
STALE = replace(ZOMBIES, meta=MetaFaults(watch_stale=1.0, slow_s=5.0))
CRASHES = replace(ZOMBIES, cluster=ClusterFaults(crash=0.7, crash_controller=0.3))
RESTARTS = replace(ZOMBIES, cluster=ClusterFaults(restart=0.5))
LEAVERS = replace(ZOMBIES, hosts=4, cluster=ClusterFaults(leave=0.6, restart=0.2))
MOVES = replace(
    ZOMBIES, cluster=ClusterFaults(join=0.5, restart=0.3, crash=0.4, pause=0.4, isolate=0.3)
)
BUSY_MOVES = replace(
    ZOMBIES,
    think_s=0.02,
    files=FileFaults(commit_slow=0.5),
    cluster=ClusterFaults(drain=1.0, join=0.3),
)
CALM = replace(ZOMBIES, cluster=ClusterFaults())
DELETIONS = replace(STALE, think_s=0.03, cluster=ClusterFaults())
RIVALS = replace(
    ZOMBIES,
    think_s=0.1,
    workers=3,
    group=GroupLimits(lease_s=1.0),
    cluster=ClusterFaults(crash=0.2, pause=0.2, pause_s=2.0),
)


def notice_nothing(patch: pytest.MonkeyPatch) -> None:
    """Not a mutant of its own: what a session says reaches neither log nor groups."""

    async def confirm_owner(self: ClusterOwnershipGuard, key: Any) -> None:
        return

    async def resume(self: Handover) -> None:
        return

    patch.setattr(Cluster, "_lapsed", lambda self: None)
    patch.setattr(Cluster, "_returned", lambda self: None)
    patch.setattr(ClusterOwnershipGuard, "refusal", lambda self, key: None)
    patch.setattr(ClusterOwnershipGuard, "steady", lambda self: True)
    patch.setattr(ClusterOwnershipGuard, "certain", lambda self: True)
    patch.setattr(Handover, "resume", resume)
    patch.setattr(ClusterOwnershipGuard, "confirm_owner", confirm_owner)


def coordinate_every_group(patch: pytest.MonkeyPatch) -> None:
    """Not a mutant of its own: every server coordinates whatever group it is asked about.

    A renewal extends a lease in the memory of one of them, and another grants the partition when
    the lease that it knows has expired. So only locks, which are in the rows, are evidence.
    """
    patch.setattr(ClusterOwnership, "check_group", lambda self, group: None)
    patch.setattr(workers, "renewals", lambda history: [])


# --- the log ------------------------------------------------------------------------------------


def no_manifest_cas(patch: pytest.MonkeyPatch) -> None:
    notice_nothing(patch)
    real = ManifestStore.change

    async def change(
        self: ManifestStore, key: Any, versioned: VersionedManifest, manifest: Any
    ) -> VersionedManifest:
        now = await self.load(key)
        return await real(self, key, VersionedManifest(manifest, now.version), manifest)

    patch.setattr(ManifestStore, "change", change)


def read_the_epoch_again_before_registering(patch: pytest.MonkeyPatch) -> None:
    notice_nothing(patch)
    real = ManifestStore.change

    async def change(
        self: ManifestStore, key: Any, versioned: VersionedManifest, manifest: Any
    ) -> VersionedManifest:
        if manifest.epoch == versioned.manifest.epoch and manifest.unsealed is not None:
            now = await self.load(key)
            versioned = VersionedManifest(manifest, now.version)
        return await real(self, key, versioned, manifest)

    patch.setattr(ManifestStore, "change", change)


def repeat_an_unknown_cas(patch: pytest.MonkeyPatch) -> None:
    notice_nothing(patch)
    real = ManifestStore.change

    async def change(
        self: ManifestStore, key: Any, versioned: VersionedManifest, manifest: Any
    ) -> VersionedManifest:
        try:
            return await real(self, key, versioned, manifest)
        except (OutcomeUnknown, PartitionNotServing):
            now = await self.load(key)
            return await real(self, key, VersionedManifest(manifest, now.version), manifest)

    patch.setattr(ManifestStore, "change", change)


def take_over_without_recovering(patch: pytest.MonkeyPatch) -> None:
    async def run(self: Any, versioned: VersionedManifest, last: Any) -> Any:
        sealed = VersionedManifest(versioned.manifest.with_last_sealed(None), versioned.version)
        return await log_end.sealed_end(self._context, self._key, sealed, self._claim)

    patch.setattr(log_end.EndRecovery, "run", run)


def no_confirmation_of_offsets(patch: pytest.MonkeyPatch) -> None:
    notice_nothing(patch)

    async def confirm(self: PartitionLog) -> None:
        return

    patch.setattr(PartitionLog, "_confirm", confirm)


def no_look_whether_the_topic_exists(patch: pytest.MonkeyPatch) -> None:
    async def confirm(self: ClusterOwnershipGuard, key: Any) -> None:
        return

    patch.setattr(ClusterOwnershipGuard, "confirm_topic", confirm)
    patch.setattr(
        ClusterOwnershipGuard, "confirm_owner", confirm
    )  # the assignment goes with the topic


def register_a_move_before_its_last_commit(patch: pytest.MonkeyPatch) -> None:
    """The manifest gets the end of before that commit, whose blocks were acknowledged."""
    real, real_entry = OpenSegment.committed, segment_writer.sealed_entry
    before: dict[str, tuple[int, int]] = {}

    def committed(self: OpenSegment, group: Any, length: int) -> None:
        before[self.view.path] = (self.view.next_offset, self.view.end_position)
        real(self, group, length)

    def sealed_entry(segment: OpenSegment) -> Any:
        entry = real_entry(segment)
        next_offset, count_bytes = before.get(segment.view.path, (entry.next_offset, entry.bytes))
        return entry._replace(next_offset=next_offset, bytes=count_bytes)

    patch.setattr(OpenSegment, "committed", committed)
    patch.setattr(partition_jobs, "sealed_entry", sealed_entry)


def hand_over_without_the_state(patch: pytest.MonkeyPatch) -> None:
    real = Manifest.handed_off
    patch.setattr(Manifest, "handed_off", lambda self, _: real(self, LogState().encode()))


# --- sessions -----------------------------------------------------------------------------------


def never_lapse(patch: pytest.MonkeyPatch) -> None:
    async def watch(self: Membership, turns: Any) -> None:
        return

    patch.setattr(Membership, "_watch", watch)


def serve_on_after_a_lapse_unfenced(patch: pytest.MonkeyPatch) -> None:
    no_fence_at_recover(patch)
    notice_nothing(patch)


# --- placement ----------------------------------------------------------------------------------


def reserve_without_end(patch: pytest.MonkeyPatch) -> None:
    def reserved_until_s(self: Roster, record: Any) -> float:
        return float("-inf") if record is None else float("inf")

    patch.setattr(Roster, "_reserved_until_s", reserved_until_s)


def reserve_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Roster, "_reserved_until_s", lambda self, record: float("-inf"))


def trip_over_a_server_that_vanished(patch: pytest.MonkeyPatch) -> None:
    real = Roster.look

    def look(self: Roster, now_s: float, alive: Any, leaving: Any) -> Any:
        for name in self._seen:
            if name not in alive and name not in self._absent:
                raise KeyError(name)
        return real(self, now_s, alive, leaving)

    patch.setattr(Roster, "look", look)


def place_without_bounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spread, "fair_room", lambda self, key, server: 1)
    patch.setattr(Spread, "room", lambda self, key, server: 1)


def forward_again(patch: pytest.MonkeyPatch) -> None:
    async def serve_transferred(self: ClusterServer, make: Any, hops: int) -> Any:
        try:
            return await make(self.broker)
        except NotOwner as error:
            if not error.address or hops > HOPS_MAX:
                raise PartitionNotServing(str(error)) from error
            return await self._forward(error.address, make, hops + 1)

    patch.setattr(ClusterServer, "serve_transferred", serve_transferred)


# --- groups -------------------------------------------------------------------------------------


def no_row_cas(patch: pytest.MonkeyPatch) -> None:
    coordinate_every_group(patch)
    real = RowWriter._mutate

    async def mutate(self: RowWriter, batch: Any) -> Any:
        try:
            rows = await self._rows.get(self._table, [each.mutation.key for each in batch])
        except TalosError as error:
            return [error] * len(batch)
        for queued, row in zip(batch, rows, strict=True):
            version = row.version if row is not None else ABSENT
            queued.mutation = queued.mutation._replace(expected=version)
        return await real(self, batch)

    patch.setattr(RowWriter, "_mutate", mutate)


CLUSTER_MUTANTS = (
    Mutant(
        "no storage fencing",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        no_fence_at_recover,
        ZOMBIES,
    ),
    Mutant(
        "the epoch is read again before registering",
        _names("two-writers", "lost-write", "inconsistent-offsets", "dirty-read", "verify-fault"),
        read_the_epoch_again_before_registering,
        RIVAL_OPENINGS,
    ),
    Mutant(
        "manifest without CAS",
        _names("two-writers", "lost-write", "inconsistent-offsets", "verify-fault"),
        no_manifest_cas,
        RIVAL_OPENINGS,
    ),
    Mutant(
        "an unknown CAS is repeated on whatever is there",
        _names("two-writers", "lost-write", "inconsistent-offsets", "verify-fault"),
        repeat_an_unknown_cas,
        LOST_ANSWERS,
    ),
    Mutant(
        "take-over without recovering",
        _names("lost-write", "dirty-read"),
        take_over_without_recovering,
        CRASHES,
    ),
    Mutant(
        "a zombie answers out of range",
        _names("false-out-of-range", "next-offset-went-back", "start-offset-went-back"),
        no_confirmation_of_offsets,
        CUT_OFF,
    ),
    Mutant(
        "a deleted topic is opened again",
        _names("left-behind", "verify-fault"),
        no_look_whether_the_topic_exists,
        DELETIONS,
    ),
    Mutant(
        "a planned move is registered before its last commit",
        # The next owner refuses a log that is longer than its manifest says: unreadable.
        _names("lost-write", "inconsistent-offsets", "two-writers", "unreadable"),
        register_a_move_before_its_last_commit,
        BUSY_MOVES,
    ),
    Mutant(
        "a planned move without the log's state",
        _names("duplicate", "false-sequence-gap"),
        hand_over_without_the_state,
        BUSY_MOVES,
    ),
    Mutant(
        "a lapse is ignored", _names("never-rebalanced", "stuck-partition"), never_lapse, ZOMBIES
    ),
    Mutant(
        "serving continues after a lapse, without fencing",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        serve_on_after_a_lapse_unfenced,
        ZOMBIES,
    ),
    Mutant(
        "delayed allocation never ends",
        _names("never-rebalanced", "stuck-partition"),
        reserve_without_end,
        LEAVERS,
    ),
    Mutant(
        "an announced restart is not waited for",
        _names("moved-for-announced-restart"),
        reserve_nothing,
        RESTARTS,
    ),
    Mutant(
        "the controller trips over a server that vanished",
        _names("unhandled-error"),
        trip_over_a_server_that_vanished,
        CRASHES,
    ),
    Mutant("the ring places without bounds", _names("crowded-topic"), place_without_bounds, CALM),
    Mutant("a request is forwarded again", _names("forward-loop"), forward_again, MOVES),
    Mutant("coordinator without CAS", _names("stale-commit", "lost-checkpoint"), no_row_cas, MOVES),
)
