"""Compares the source with the target: settings, permissions, messages and positions.

Messages are compared by a digest of each partition that covers what a reader gets, except offset
and append time. Both sides are read from the first message that both retain.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from opentalos.cli.migrate.copy import FETCH_BYTES, FETCH_MESSAGES
from opentalos.cli.migrate.plan import wanted_grants
from opentalos.cli.migrate.positions import checkpoints, mapped
from opentalos.cli.migrate.sides import Sides, at
from opentalos.cli.migrate.state_file import CopiedTopic
from opentalos.model.errors import BadRequest
from opentalos.sdk.aio import Client
from opentalos.sdk.core.blocks import decode_block_records
from opentalos.sdk.core.values import Record, TopicDescription, TopicRef

COLUMNS = ("topic", "what", "source", "target", "result")
OK, DIFFERS, MOVED = "ok", "DIFFERS", "moved at the target"
_DIGITS_SHOWN = 16


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """The comparison of one topic."""

    sides: Sides
    source: TopicDescription
    target: TopicDescription
    here: TopicRef
    there: TopicRef
    state: CopiedTopic

    async def rows(self) -> AsyncIterator[dict[str, Any]]:
        """One row per comparison. Raises: TalosError: a side cannot be read."""
        source, target = self.source, self.target
        yield self._row("partitions", source.partitions, target.partitions)
        yield self._row("retention_s", source.retention_s, target.retention_s)
        yield self._row("attributes", dict(source.attributes), dict(target.attributes))
        owners = source.info.owner, target.info.owner
        yield self._row(
            "permissions",
            _plain(wanted_grants(source, *owners)), _plain(wanted_grants(target, *owners)),
        )  # fmt: skip
        for partition in range(source.partitions):
            async for row in self._messages(partition):
                yield row
        async for row in self._positions():
            yield row

    def _row(self, what: str, source: Any, target: Any) -> dict[str, Any]:
        result = OK if source == target else DIFFERS
        name = self.source.info.name
        return {"topic": name, "what": what, "source": source, "target": target, "result": result}

    async def _messages(self, partition: int) -> AsyncIterator[dict[str, Any]]:
        state = self.state.partition(partition)
        with at("source", self.sides.source, self.here.name):
            source = (await self.sides.source.offsets(self.here, [partition]))[partition]
        with at("target", self.sides.target, self.here.name):
            target = (await self.sides.target.offsets(self.there, [partition]))[partition]
        copied = state.map.source_of(target.next) if state.map.runs else source.start
        yield self._row(f"end of partition {partition}", source.next, max(copied, source.start))
        digests, counts = (hashlib.sha256(), hashlib.sha256()), [0, 0]
        for span in state.map.spans(target.next):
            skipped = max(0, source.start - span.source, target.start - span.target)
            left = span.messages - skipped
            for side, begin in enumerate((span.source + skipped, span.target + skipped)):
                if left > 0:
                    async for record in self._records(side, partition, begin, begin + left):
                        digests[side].update(content_of(record))
                        counts[side] += 1
        yield self._row(f"messages of partition {partition}", *counts)
        shown = [digest.hexdigest()[:_DIGITS_SHOWN] for digest in digests]
        yield self._row(f"digest of partition {partition}", *shown)

    async def _records(
        self, side: int, partition: int, begin: int, end: int
    ) -> AsyncIterator[Record]:
        client, ref, name = (
            (self.sides.target, self.there, "target") if side
            else (self.sides.source, self.here, "source")
        )  # fmt: skip
        while begin < end:
            with at(name, client, self.here.name):
                records = await _fetch(client, ref, partition, begin, end)
            for record in records:
                yield record
            begin = records[-1].offset + 1

    async def _positions(self) -> AsyncIterator[dict[str, Any]]:
        source = await checkpoints(self.sides, "source", self.here)
        target = await checkpoints(self.sides, "target", self.there)
        for group, found in sorted(source.items()):
            if "/" in group:  # of another tenant: not copied
                continue
            present = target.get(group, {})
            written = self.state.positions.get(group, {})
            wanted = {
                number: mapped(self.state, number, offset) for number, offset in found.items()
            }
            now = {number: present.get(number, -1) for number in wanted}
            row = self._row(f"positions of group {group}", wanted, now)
            if row["result"] != OK and _only_moved(wanted, now, written):
                row["result"] = MOVED
            yield row


def _only_moved(wanted: dict[int, int], now: dict[int, int], written: dict[int, int]) -> bool:
    """Whether the group itself has moved, in each partition that differs."""
    return all(
        number in written and now[number] != written[number]
        for number in wanted
        if wanted[number] != now[number]
    )


async def _fetch(
    client: Client, ref: TopicRef, partition: int, begin: int, end: int
) -> list[Record]:
    wanted = min(FETCH_MESSAGES, end - begin)
    reply = await client.fetch(
        ref, partition, begin, messages_max=wanted, bytes_max=FETCH_BYTES
    )  # fmt: skip
    records = [
        record
        for block in reply.blocks
        for record in decode_block_records(ref.name, partition, block, begin)
        if record.offset < end
    ]
    if not records:
        raise BadRequest(f"partition {partition} of topic {ref.name} has no offset {begin}")
    return records


def content_of(record: Record) -> bytes:
    """What a message is, without its place and append time, as unambiguous bytes."""
    fields = (
        record.partition_key, record.sequence_number, record.create_ms, record.message_type,
        record.schema_fingerprint, record.tag, len(record.data),
    )  # fmt: skip
    return json.dumps(fields).encode() + b"\n" + record.data


def _plain(grants: Any) -> dict[str, int]:
    return {who: int(mask) for who, mask in sorted(grants.items())}
