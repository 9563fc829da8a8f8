"""Mutants of what two tenants keep apart on one topic: producer ids and groups; see ``mutants``."""

from typing import Any

import pytest
from tests.simulation.mutants import Mutant, _names

from opentalos.broker.groups import consumers
from opentalos.group.directory import GroupDirectory, GroupUser
from opentalos.group.row_format import GroupKey
from opentalos.log.segment import producers
from opentalos.log.segment.producers import ProducerTable
from opentalos.log.segment.scan import SegmentScan
from opentalos.testing.simulation.world.storage_worlds import SHARED


def know_a_producer_by_its_id_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producers, "share_of", lambda principal, producer_id: 1)


def evict_whoever_was_unused_longest(patch: pytest.MonkeyPatch) -> None:
    """One bound for all principals together."""
    used: dict[ProducerTable, dict[tuple[int, int], None]] = {}
    real = ProducerTable.note

    def note(self: ProducerTable, principal: int, stamp: Any, *what: int) -> None:
        real(self, principal, stamp, *what)
        order = used.setdefault(self, {each[:2]: None for each in self.producers()})
        order.pop((principal, stamp.producer_id), None)
        order[principal, stamp.producer_id] = None
        while len(order) > producers.PRODUCERS_OF_PRINCIPAL_MAX * 2:
            number, producer_id = next(iter(order))
            del order[number, producer_id]
            self.share(number).producers.pop(producer_id, None)

    patch.setattr(ProducerTable, "note", note)
    patch.setattr(ProducerTable, "_make_room", lambda *_: None)


def forget_the_principals_of_a_log_that_is_scanned(patch: pytest.MonkeyPatch) -> None:
    real = SegmentScan._settle_tail

    def settle(self: SegmentScan) -> None:
        self._tail_notes = [(0, *note[1:]) for note in self._tail_notes]
        real(self)

    patch.setattr(SegmentScan, "_settle_tail", settle)


# --- groups -----------------------------------------------------------------------------------


def know_a_group_by_its_name_alone(patch: pytest.MonkeyPatch) -> None:
    def user_of(caller: Any, topic: Any, group: str) -> GroupUser:
        return GroupUser(GroupKey(topic.uuid, group), topic.owner, topic.owner)

    patch.setattr(consumers, "user_of", user_of)


def take_a_name_of_any_tenant_for_ones_own(patch: pytest.MonkeyPatch) -> None:
    """Such as a server that does not compare the tenant in the row."""

    async def find(self: GroupDirectory, user: GroupUser) -> Any:
        for key in user.keys():
            known = self._topics.get(key.topic_uuid, {}).get(key.group)
            group = known or await self._loaded(key)
            if group is not None:
                return group
        return None

    patch.setattr(GroupDirectory, "find", find)


SHARED_MUTANTS = (
    Mutant(
        "know a producer by its id alone",
        _names("lost-write", "false-sequence-gap"),
        know_a_producer_by_its_id_alone,
        SHARED,
    ),
    Mutant(
        "evict whoever was unused longest",
        _names("false-sequence-gap"),
        evict_whoever_was_unused_longest,
        SHARED,
    ),
    Mutant(
        "forget the principals of a log that is scanned",
        _names("duplicate", "false-sequence-gap"),
        forget_the_principals_of_a_log_that_is_scanned,
        SHARED,
    ),
    Mutant(
        "know a group by its name alone",
        _names("stale-commit", "lost-checkpoint"),
        know_a_group_by_its_name_alone,
        SHARED,
    ),
    Mutant(
        "take a name of any tenant for one's own",
        _names("stale-commit", "lost-checkpoint"),
        take_a_name_of_any_tenant_for_ones_own,
        SHARED,
    ),
)
