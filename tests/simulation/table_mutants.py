"""Mutants of tables and their streams; see ``mutants`` for what a mutant proves.

Equivalent mutants, which no client can distinguish from the real code:

- No announcement of a shard's epoch before its first block. The block itself carries the epoch,
  so the log refuses the former owner from the same offset on.
- No check of the ownership before a write. The row's version keeps two owners apart, and each reads
  what the other left pending in a row before it changes the row.
"""

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import Mutant, _names
from tests.simulation.table_worlds import (
    AFTER_CLEARS,
    AFTER_WRITES,
    BEFORE_WRITES,
    CALM_ROWS,
    GAPPED,
    HASTE,
    JUMPS,
    LATE,
    RECREATED,
    RIVALS,
    SLOW,
    TAKE_OVERS,
    UNKNOWN,
)

from opentalos.broker.tables.api import admin as table_admin
from opentalos.broker.tables.maintenance import upkeep as table_upkeep
from opentalos.broker.tables.rows import row_work
from opentalos.broker.tables.rows.row_work import RowWork
from opentalos.broker.tables.rows.writer import ShardWriter
from opentalos.broker.tables.shard.claim import ShardClaim
from opentalos.broker.tables.shard.record import HeldRecord, claim
from opentalos.broker.tables.shard.shard import TableShard
from opentalos.broker.tables.stream import delivery as delivery_module
from opentalos.broker.tables.stream.gap import stop_stream
from opentalos.broker.tables.stream.marks import Marks
from opentalos.broker.tables.stream.outbox import Outbox
from opentalos.broker.tables.stream.pending_scan import PendingScan
from opentalos.broker.tables.stream.publish_lane import PublishLane
from opentalos.catalog.tables.change import new_table
from opentalos.model.change import ChangeKind, StreamView
from opentalos.model.errors import OutcomeUnknown, VersionConflict
from opentalos.model.table import NEVER
from opentalos.sds import mutation as mutation_module
from opentalos.sds.cell_format import HEADER_CELL, encode_header
from opentalos.sds.mutation import apply
from opentalos.testing.simulation.stores.faults import (
    WorldFaults,
)

# --- order of writing, publishing and clearing ----------------------------------------------------


def publish_before_the_row_is_durable(patch: pytest.MonkeyPatch) -> None:
    real = ShardWriter._written

    async def written(self: Any, works: Any, *rest: Any) -> Any:
        for work in works:
            entries, work.entries = work.entries, []
            for entry in entries:
                self._outbox.add(entry)
            self._opening.publish(entries)
        return await real(self, works, *rest)

    patch.setattr(ShardWriter, "_written", written)


def clear_before_the_ack(patch: pytest.MonkeyPatch) -> None:
    take, published = PublishLane._take, Outbox.published

    def publish_at_once(self: Any) -> Any:
        block = take(self)
        self._with.listener.published(list(self._entries))
        return block

    def known_only(self: Any, entries: Any) -> None:
        published(self, [each for each in entries if each.column in self._rows.get(each.key, ())])

    patch.setattr(PublishLane, "_take", publish_at_once)
    patch.setattr(Outbox, "published", known_only)


def outbox_in_a_second_write(patch: pytest.MonkeyPatch) -> None:
    real = ShardWriter._mutate

    async def mutate(self: Any, mutations: Any) -> Any:
        rows = [
            mutation._replace(pending={}) if mutation.data else mutation for mutation in mutations
        ]
        outcomes = list(await real(self, rows))
        again = [
            item._replace(expected=outcome, write_id=item.write_id[::-1], data={})
            for item, outcome in zip(mutations, outcomes, strict=True)
            if item.data and item.pending and isinstance(outcome, int)
        ]
        if again:
            second = dict(zip([item.key for item in again], await real(self, again), strict=True))
            for at, mutation in enumerate(mutations):
                if isinstance(second.get(mutation.key), int):
                    outcomes[at] = second[mutation.key]
        return outcomes

    patch.setattr(ShardWriter, "_mutate", mutate)


def send_entries_out_of_order(patch: pytest.MonkeyPatch) -> None:
    real = PublishLane._take

    def take(self: Any) -> Any:
        self._queue = deque(reversed(self._queue))
        return real(self)

    patch.setattr(PublishLane, "_take", take)


def ignore_what_another_owner_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardWriter, "_take_found", lambda self, row: None)


# --- opening --------------------------------------------------------------------------------------


def no_scan_at_opening(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, rows: Any, table: Any) -> Any:
        self._next_key, self.next_s = None, float("inf")
        return []

    patch.setattr(PendingScan, "page", nothing)


def epoch_not_raised(patch: pytest.MonkeyPatch) -> None:
    """The log takes what a new opening sends for what the former one sent."""

    async def not_raised(*args: Any) -> Any:
        held, former = await claim(*args)
        if former is not None:
            held = HeldRecord(held.record._replace(epoch=former.epoch), held.version)
        return held, former

    patch.setattr("opentalos.broker.tables.shard.claim.claim", not_raised)


# --- expiry and keys ------------------------------------------------------------------------------


def expired_rows_come_back(patch: pytest.MonkeyPatch) -> None:
    """A write sees what no reader sees any more."""
    real = mutation_module.live_columns

    def live(schema: Any, stored: Any, now_ms: int) -> Any:
        return real(replace(schema, ttl_s=NEVER), stored, now_ms)

    patch.setattr(mutation_module, "live_columns", live)


def keys_of_removals_left_out(patch: pytest.MonkeyPatch) -> None:
    real = RowWork._add_messages

    def add(self: Any, view: Any, change: Any) -> None:
        if change.kind is ChangeKind.DELETE:
            others = [
                target for target in view.targets if target.content.view is not StreamView.KEYS_ONLY
            ]
            view = view._replace(targets=others)
        real(self, view, change)

    patch.setattr(RowWork, "_add_messages", add)


# --- gaps -----------------------------------------------------------------------------------------


def gap_from_the_newest_change_on(patch: pytest.MonkeyPatch) -> None:
    real = stop_stream

    async def stop(tables: Any, table: Any, lane: Any, waiting: Any) -> Any:
        newest = sorted(waiting, key=lambda entry: entry.timestamp_ms)[-1:]
        return await real(tables, table, lane, newest)

    patch.setattr(delivery_module, "stop_stream", stop)
    forget_what_other_shards_drop(patch)


def forget_what_other_shards_drop(patch: pytest.MonkeyPatch) -> None:
    async def record(*args: Any) -> None:
        return

    patch.setattr(delivery_module, "record_gaps", record)


# --- drops ----------------------------------------------------------------------------------------


def rows_outlive_their_table(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table_upkeep, "row_tables", lambda table: ())


def same_rows_for_the_same_name(patch: pytest.MonkeyPatch) -> None:
    """A recreated table has the id of the former one, and finds its rows."""
    rows_outlive_their_table(patch)
    real = new_table

    def named(spec: Any, place: tuple[str, str], uuid: str, *rest: Any) -> Any:
        return real(spec, place, place[1].encode().hex(), *rest)

    patch.setattr(table_admin, "new_table", named)


# --- what a mutation does -------------------------------------------------------------------------


def timestamp_from_the_clock_only(patch: pytest.MonkeyPatch) -> None:
    def by_the_clock(schema: Any, stored: Any, mutation: Any, now_ms: int, size: int) -> Any:
        early = stored._replace(timestamp_ms=0)
        return apply(schema, early, mutation, now_ms, size)

    patch.setattr(row_work, "apply", by_the_clock)


def sequence_restarts_after_a_delete(patch: pytest.MonkeyPatch) -> None:
    def restarting(schema: Any, stored: Any, mutation: Any, now_ms: int, size: int) -> Any:
        known = stored._replace(sequence=0) if stored.deleted else stored
        return apply(schema, known, mutation, now_ms, size)

    patch.setattr(row_work, "apply", restarting)


def failed_condition_makes_a_message(patch: pytest.MonkeyPatch) -> None:
    def telling(schema: Any, stored: Any, mutation: Any, now_ms: int, size: int) -> Any:
        applied = apply(schema, stored, mutation, now_ms, size)
        if applied.success:
            return applied
        change = apply(schema, stored, mutation._replace(condition=None), now_ms, size).change
        if change is None:
            return applied
        row = stored._replace(timestamp_ms=change.timestamp_ms, sequence=change.sequence)
        header = encode_header(row.timestamp_ms, row.sequence, row.deleted)
        return applied._replace(cells={HEADER_CELL: header}, row=row, change=change)

    patch.setattr(row_work, "apply", telling)


# --- unknown and overtaken writes -----------------------------------------------------------------


def unknown_is_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """Without the write's id: what was done already is done again."""

    async def mutate(self: Any, mutations: Any) -> Any:
        deadline_s = asyncio.get_running_loop().time() + 3
        outcomes = await self._try(mutations, deadline_s)
        return [
            VersionConflict("read again") if isinstance(each, OutcomeUnknown) else each
            for each in outcomes
        ]

    patch.setattr(ShardWriter, "_mutate", mutate)


def unknown_is_answered_as_done(patch: pytest.MonkeyPatch) -> None:
    async def mutate(self: Any, mutations: Any) -> Any:
        deadline_s = asyncio.get_running_loop().time() + 3
        outcomes = await self._try(mutations, deadline_s)
        return [
            item.expected + 1 if isinstance(each, OutcomeUnknown) else each
            for item, each in zip(mutations, outcomes, strict=True)
        ]

    patch.setattr(ShardWriter, "_mutate", mutate)


def stale_row_after_a_conflict(patch: pytest.MonkeyPatch) -> None:
    """The version is read again and the row is not."""
    read, forget = ShardWriter._read, ShardWriter._forget
    stale: dict[Any, Any] = {}

    async def read_version(self: Any, works: Any) -> Any:
        again = await read(self, works)
        for work in works:
            if work in stale:
                work.before = stale.pop(work)
        return again

    def remember(self: Any, work: Any) -> None:
        stale[work] = work.before
        forget(self, work)

    patch.setattr(ShardWriter, "_read", read_version)
    patch.setattr(ShardWriter, "_forget", remember)


# --- marks ----------------------------------------------------------------------------------------


def mark_without_settling(patch: pytest.MonkeyPatch) -> None:
    real = Marks.issue

    async def issue(self: Any, stream: int) -> int:
        return await real(replace(self, settled_s=0.0), stream)

    patch.setattr(Marks, "issue", issue)


def mark_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Whatever waits to be published."""
    real = TableShard.mark

    async def mark(self: Any, stream: int) -> int:
        await real(self, stream)
        now_ms: int = self._server.context.clock.wall_ms()
        return now_ms

    patch.setattr(TableShard, "mark", mark)


def mark_forgotten_by_the_next_owner(patch: pytest.MonkeyPatch) -> None:
    async def write_mark(self: Any, mark_ms: int) -> None:
        return

    patch.setattr(ShardClaim, "write_mark", write_mark)


TABLE_MUTANTS = (
    Mutant(
        "publish before the row is durable",
        _names("cdc-phantom", "resend-differs", "table-differs", "cdc-row-inversion"),
        publish_before_the_row_is_durable,
        HASTE,
    ),
    Mutant("clear before the ack", _names("missing-mutation"), clear_before_the_ack, CALM_ROWS),
    Mutant(
        "outbox entry in a second write",
        _names("missing-mutation"),
        outbox_in_a_second_write,
        HASTE,
    ),
    Mutant(
        "entries of a row out of order",
        _names("cdc-row-inversion"),
        send_entries_out_of_order,
        SLOW,
    ),
    Mutant(
        "timestamp from the clock only",
        _names("timestamp-went-back"),
        timestamp_from_the_clock_only,
        JUMPS,
    ),
    Mutant(
        "sequence restarts after a delete",
        _names("resend-differs"),
        sequence_restarts_after_a_delete,
        CALM_ROWS,
    ),
    Mutant(
        "a failed condition makes a message",
        _names("cdc-phantom"),
        failed_condition_makes_a_message,
        CALM_ROWS,
    ),
    Mutant(
        "unknown is applied twice",
        _names("cdc-double-increment"),
        unknown_is_applied_twice,
        UNKNOWN,
    ),
    Mutant(
        "unknown is answered as done",
        _names("lost-row-write", "missing-mutation"),
        unknown_is_answered_as_done,
        UNKNOWN,
    ),
    Mutant(
        "stale row after a conflict",
        _names("resend-differs", "cdc-row-inversion"),
        stale_row_after_a_conflict,
        RIVALS,
    ),
    Mutant(
        "no scan at opening, killed after a write",
        _names("left-behind", "missing-mutation"),
        no_scan_at_opening,
        AFTER_WRITES,
    ),
    Mutant(
        "clear before the ack, killed after a clear",
        _names("missing-mutation"),
        clear_before_the_ack,
        AFTER_CLEARS,
    ),
    Mutant(
        "outbox entry in a second write, killed before it",
        _names("missing-mutation"),
        outbox_in_a_second_write,
        BEFORE_WRITES,
    ),
    Mutant(
        "gap from the newest change on",
        _names("missing-mutation"),
        gap_from_the_newest_change_on,
        GAPPED,
    ),
    Mutant(
        "gap of one shard only",
        _names("missing-mutation"),
        forget_what_other_shards_drop,
        GAPPED,
    ),
    Mutant(
        "expired rows come back",
        _names("cdc-double-increment", "table-differs"),
        expired_rows_come_back,
        replace(CALM_ROWS, expiring=1.0),
    ),
    Mutant(
        "keys of removals left out",
        _names("missing-mutation"),
        keys_of_removals_left_out,
        replace(CALM_ROWS, keyed=1.0),
    ),
    Mutant("rows outlive their table", _names("left-behind"), rows_outlive_their_table, RECREATED),
    Mutant(
        "same rows for the same name",
        _names("table-differs"),
        same_rows_for_the_same_name,
        RECREATED,
    ),
    Mutant("mark by the clock", _names("mark-too-early"), mark_by_the_clock, SLOW),
    Mutant(
        "mark forgotten by the next owner",
        _names("mark-too-early"),
        mark_forgotten_by_the_next_owner,
        replace(JUMPS, world=WorldFaults(clock_jump=1.0, clock_jump_s=10.0, process_crash=0.5)),
    ),
    Mutant("mark without settling", _names("mark-too-early"), mark_without_settling, LATE),
    Mutant(
        "what another owner left is ignored",
        _names("cdc-row-inversion"),
        ignore_what_another_owner_left,
        RIVALS,
    ),
)

TABLE_CLUSTER_MUTANTS = (
    Mutant(
        "clear before the ack in a cluster",
        _names("missing-mutation"),
        clear_before_the_ack,
        TAKE_OVERS,
    ),
)
