"""Mutations for another server: how they are divided among calls, and what a failed call means."""

from collections.abc import Sequence
from typing import Any

import pytest

from opentalos.broker.peer_rpc.codec import decode, encode
from opentalos.broker.peer_rpc.messages import MutationsReply, MutationsRequest, OutcomeMessage
from opentalos.broker.tables.shard.remote import CALL_BYTES_MAX, ask_mutations
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.model.mutation import Mutation, Operation
from opentalos.ports.peers import CallRequest, Forwarded, Reply
from opentalos.sds.cell_format import ABSENT
from opentalos.sds.mutation import Applied

TABLE = ("uuid", "alice", "people")
APPLIED = Applied(True, {}, {}, ABSENT, None)


class Owner:
    """The Peers port: the server that owns the shard; it applies all, or fails at one call."""

    def __init__(self, failure: tuple[int, TalosError] | None = None) -> None:
        self.calls: list[CallRequest] = []
        self._failure = failure

    async def ask(self, address: str, request: CallRequest) -> bytes:
        self.calls.append(request)
        if self._failure is not None and len(self.calls) == self._failure[0]:
            raise self._failure[1]
        asked = decode(request.body, MutationsRequest)
        return encode(MutationsReply([OutcomeMessage.of(APPLIED) for _ in asked.mutations]))

    async def refuses(self, address: str) -> bool:
        raise NotImplementedError

    async def forward(self, address: str, request: Forwarded) -> Reply:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""

    def numbers(self) -> list[list[Any]]:
        """Keys of the mutations of each call."""
        asked = [decode(call.body, MutationsRequest).mutations for call in self.calls]
        return [[shown.mutation().key["id"].value for shown in part] for part in asked]


def puts(*sizes: int) -> Sequence[Mutation]:
    text = DataType.STRING
    return [
        Mutation(Operation.PUT, {"id": Datum(DataType.INT64, n)}, {"s": Datum(text, "x" * size)})
        for n, size in enumerate(sizes)
    ]


async def test_a_call_has_a_bound_and_every_mutation_is_sent_once_in_order() -> None:
    half = CALL_BYTES_MAX // 2
    owner = Owner()
    mutations = puts(10, half, half, CALL_BYTES_MAX + 1, 20, 30)
    assert await ask_mutations(owner, "h:1", TABLE, mutations) == [APPLIED] * 6
    assert owner.numbers() == [[0, 1], [2], [3], [4, 5]]
    assert max(len(call.body) for call in owner.calls[:2]) < CALL_BYTES_MAX + 1_000


async def test_small_mutations_are_one_call() -> None:
    owner = Owner()
    assert await ask_mutations(owner, "h:1", TABLE, puts(*[100] * 1_000)) == [APPLIED] * 1_000
    assert len(owner.calls) == 1


@pytest.mark.parametrize("error", [OutcomeUnknown("no reply"), StoreUnavailable("down")])
async def test_nothing_is_sent_after_a_call_that_failed(error: TalosError) -> None:
    owner = Owner((2, error))
    outcomes = await ask_mutations(owner, "h:1", TABLE, puts(*[CALL_BYTES_MAX] * 4))
    assert outcomes[0] == APPLIED
    assert [type(outcome) for outcome in outcomes[1:]] == [type(error)] * 3
    assert len(owner.calls) == 2
