"""A row store that fails as the test says, and a coordinator over it."""

from collections.abc import Callable, Sequence

from tests.unit.catalog.support import CountingClock

from opentalos.adapters.memory import MemoryRowStore, MemoryStorage
from opentalos.group.coordinator import Commit, Coordinator, WorkerSeat
from opentalos.group.directory import GroupUser
from opentalos.group.row_format import GroupKey
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.model.limits import GroupLimits
from opentalos.ports.row_store import FamilyName, Row, RowMutation

ALICE = GroupUser(GroupKey("u1", "g"), "alice")
BOB = GroupUser(GroupKey("u1", "g"), "bob", "alice")
ROOT = GroupUser(GroupKey("u1", "g"), "alice", "alice")  # as an administrator uses it
W1, W2, W3 = (WorkerSeat(f"w{n}", f"10.0.0.{n}") for n in (1, 2, 3))
LEASE_S = GroupLimits().lease_s

Fault = Callable[[Sequence[RowMutation]], bool]


class FaultyRows(MemoryRowStore):
    """Counts calls; ``apply_then_fail`` and ``fail`` eat one outcome of a write each."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        super().__init__(storage)
        self.calls: list[int] = []  # mutations of each mutate_many
        self.scans = 0
        self.apply_then_unknown = 0  # writes that happen but do not return
        self.unknown = 0  # writes that do not happen and do not return
        self.unavailable = 0  # writes that are refused
        self.script: list[str] = []  # a fault for each of the next calls
        self.meanwhile: Callable[[], None] | None = None  # runs once, during the next write

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        self.calls.append(len(mutations))
        if self.script:
            setattr(self, self.script.pop(0), 1)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        if self.unavailable:
            self.unavailable -= 1
            raise StoreUnavailable("refused")
        if self.unknown:
            self.unknown -= 1
            return [OutcomeUnknown("lost") for _ in mutations]
        outcomes = await super().mutate_many(table, mutations)
        if self.apply_then_unknown:
            self.apply_then_unknown -= 1
            raise OutcomeUnknown("no reply")
        return outcomes

    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]:
        self.scans += 1
        return await super().scan(table, start, stop, limit=limit, reverse=reverse, family=family)


async def open_coordinator(
    rows: MemoryRowStore,
    limits: GroupLimits | None = None,
    first_token: int = 0,
    server: str = "s1",
    certain: Callable[[], bool] = lambda: True,
) -> Coordinator:
    """``first_token`` keeps the write ids of two coordinators apart."""
    clock = CountingClock()
    for _ in range(first_token):
        clock.token(12)
    coordinator = Coordinator(rows, clock, limits or GroupLimits(), server, certain)
    await coordinator.start()
    return coordinator


def commit(
    worker: str, offset: int, *, next_offset: int = 100, last: int | None = None, partition: int = 0
) -> Commit:
    return Commit(partition, worker, offset, next_offset, last)


async def checkpoint(groups: Coordinator, user: GroupUser, partition: int) -> int:
    return (await groups.progress.checkpoint(user, partition)).offset


async def tenants(groups: Coordinator, topic_uuid: str) -> dict[str, str]:
    return {name: row.tenant for name, row in (await groups.rows.groups(topic_uuid)).items()}
