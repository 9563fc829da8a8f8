"""Calls that name many groups cost topics and names, not one times the other."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.broker.groups.kafka.test_kafka_groups import LIMITS, NOBODY, commit, lead
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, ROOT
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.broker.groups.kafka import scope as scopes
from opentalos.broker.groups.kafka.scope import LOOKED_UP_MAX
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import StoreUnavailable
from opentalos.model.identity import Grantee, GrantType, Permission, Principal
from opentalos.model.limits import QuotaLimits
from opentalos.wire.kafka._generated.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from opentalos.wire.kafka._generated.delete_groups_request import DeleteGroupsRequest
from opentalos.wire.kafka._generated.describe_groups_request import DescribeGroupsRequest
from opentalos.wire.kafka._generated.list_groups_request import ListGroupsRequest
from opentalos.wire.kafka._generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from opentalos.wire.kafka.apis import ApiKey, api_of
from opentalos.wire.kafka.errors import ErrorCode

NAMES, TOPICS = 500, 2_000
READ = {Grantee(GrantType.DEVELOPER, "bob"): Permission(6)}
OFFSET_FETCH_VERSION = 9


def groups_of(names: Iterable[str]) -> list[OffsetFetchRequestGroup]:
    return [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]


CALLS: dict[str, tuple[ApiKey, Any]] = {
    "describe": (
        ApiKey.DESCRIBE_GROUPS, lambda names: DescribeGroupsRequest(groups=list(names))
    ),
    "describe with assignments by the server": (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        lambda names: ConsumerGroupDescribeRequest(group_ids=list(names)),
    ),
    "delete": (
        ApiKey.DELETE_GROUPS, lambda names: DeleteGroupsRequest(groups_names=list(names))
    ),
    "fetch": (
        ApiKey.OFFSET_FETCH, lambda names: OffsetFetchRequest(groups=groups_of(names))
    ),
    "list": (ApiKey.LIST_GROUPS, lambda names: ListGroupsRequest()),
}  # fmt: skip


async def ask(w: World, kind: str, caller: Principal, names: Iterable[str]) -> Any:
    key, make = CALLS[kind]
    version = OFFSET_FETCH_VERSION if key is ApiKey.OFFSET_FETCH else api_of(key).versions[1]
    return await Client(w, caller).ask(key, make(names), version)


class Examined:
    """Counts topics whose permissions were looked at, in all and between two pauses."""

    def __init__(self, w: World, patch: pytest.MonkeyPatch) -> None:
        self._w = w
        self.count = self.piece_max = self._piece = self._pauses = 0
        patch.setattr(scopes, "permissions_of", self._examine)

    def _examine(self, caller: Principal, topic: Topic) -> int:
        pauses = self._w.broker.context.work.counters.pauses
        self._piece = self._piece + 1 if pauses == self._pauses else 1
        self._pauses = pauses
        self.piece_max = max(self.piece_max, self._piece)
        self.count += 1
        return permissions_of(caller, topic)


async def test_many_names_of_a_tenant_without_a_right_examine_each_topic_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"g{number}" for number in range(NAMES)]
    async with world(kafka_group=LIMITS, quota=QuotaLimits(tenant_changes_per_s=0)) as w:
        for number in range(TOPICS):
            await w.topic(ALICE, f"t{number}")
        for kind in CALLS:
            examined = Examined(w, monkeypatch)
            await ask(w, kind, BOB, names)
            assert examined.count == TOPICS, kind
            assert examined.piece_max <= SHORT_ITEMS, kind


@pytest.mark.parametrize("count", [1, LOOKED_UP_MAX + 1])
async def test_few_and_many_names_find_the_same_groups(count: int) -> None:
    async with world(kafka_group=LIMITS) as w:
        topics = [await w.topic(ALICE, name, acl=READ) for name in ("a", "b", "c")]
        for topic in topics:
            await w.put(ALICE, topic, 0, 10)
        await commit(w, BOB, topics[0], NOBODY, 3, generation=-1)
        await commit(w, ALICE, topics[1], NOBODY, 4, generation=-1)
        await commit(w, ALICE, topics[2], NOBODY, 5, generation=-1)
        more = [f"none{number}" for number in range(count - 1)]

        async def found(caller: Principal, group: str) -> tuple[str, dict[str, int]]:
            described = await ask(w, "describe", caller, [group, *more])
            fetched = await ask(w, "fetch", caller, [group, *more])
            assert {each.group_state for each in described.groups[1:]} <= {"Dead"}
            assert not [each for each in fetched.groups[1:] if each.topics]
            at = {each.name: each.partitions[0] for each in fetched.groups[0].topics}
            offsets = {name: part.committed_offset for name, part in at.items()}
            return described.groups[0].group_state, offsets

        assert await found(ALICE, "g") == ("Empty", {"b": 4, "c": 5})
        assert await found(ALICE, "alice/g") == ("Empty", {"b": 4, "c": 5})
        assert await found(ALICE, "bob/g") == ("Empty", {"a": 3})
        assert await found(BOB, "g") == ("Empty", {"alice/a": 3})
        assert await found(BOB, "alice/g") == ("Dead", {})
        assert await found(ROOT, "g") == ("Empty", {"alice/b": 4, "alice/c": 5})
        assert await found(ROOT, "bob/g") == ("Empty", {"alice/a": 3})
        deleted = await ask(w, "delete", ALICE, ["g", "bob/g", "no#name", *more])
        none, name = int(ErrorCode.GROUP_ID_NOT_FOUND), int(ErrorCode.INVALID_GROUP_ID)
        codes = [each.error_code for each in deleted.results]
        assert codes == [0, 0, name, *[none for _ in more]]
        assert await found(ALICE, "g") == ("Dead", {})


async def test_rows_that_cannot_be_read_are_not_read_for_each_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(kafka_group=LIMITS) as w:
        await w.topic(ALICE)
        reads = 0

        async def fails(*_: object, **__: object) -> None:
            nonlocal reads
            reads += 1
            raise StoreUnavailable("no rows")

        monkeypatch.setattr(w.broker.groups.rows, "groups", fails)
        answer = await ask(w, "describe", ALICE, [f"g{number}" for number in range(NAMES)])
        expected = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert {group.error_code for group in answer.groups} == {expected}
        assert reads == 1


async def test_administrators_find_members_of_every_owner_by_the_plain_name() -> None:
    async with world(kafka_group=LIMITS) as w:
        await w.topic(ALICE)
        who = await lead(w, ALICE, 0)
        groups = w.broker.kafka_groups.groups
        described = await ask(w, "describe", ROOT, ["g", "alice/g", "bob/g"])
        assert [len(group.members) for group in described.groups] == [1, 1, 0]
        w.broker.kafka_groups.members.leave(ALICE, "g", [who])
        assert groups.tenants == {}


@pytest.mark.parametrize("kind", ["describe", "describe with assignments by the server"])
async def test_a_group_that_is_named_many_times_is_described_once(kind: str) -> None:
    async with world(kafka_group=LIMITS) as w:
        answer = await ask(w, kind, ALICE, ["g", "h", "g"] * 100)
        assert [group.group_id for group in answer.groups] == ["g", "h"]
