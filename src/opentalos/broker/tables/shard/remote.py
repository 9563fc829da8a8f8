"""Mutations, marks and changed tables between the servers of a cluster.

``shards.py`` asks the owner of a shard through these functions, and answers other servers with
what it registers here.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from msgspec import Raw

from opentalos.broker.peer_rpc.calls import TABLE_CHANGED, TABLE_MARK, TABLE_MUTATIONS
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.codec import encode
from opentalos.broker.peer_rpc.dispatch import PeerDispatch
from opentalos.broker.peer_rpc.messages import (
    Empty,
    MarkReply,
    MarkRequest,
    MutationMessage,
    MutationsReply,
    MutationsRequest,
    OutcomeMessage,
    TableChangedRequest,
    TableName,
)
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.mutation import Mutation
from opentalos.ports.peers import Peers
from opentalos.sds.mutation import Applied

CALL_BYTES_MAX: Final = 1 << 20  # of encoded mutations; about 4 ms for each server

Outcome = Applied | TalosError


async def ask_mutations(
    peers: Peers, address: str, table: TableName, mutations: Sequence[Mutation]
) -> Sequence[Outcome]:
    """Outcomes of mutations that another server applies.

    A call has at most ``CALL_BYTES_MAX`` of mutations, so that neither server's event loop stands
    still while it is encoded and decoded. After a failed call nothing more is sent: what is left
    has its error, since a mutation must not overtake one whose outcome is unknown.
    """
    outcomes: list[Outcome] = []
    while len(outcomes) < len(mutations):
        part = _part(mutations, len(outcomes))
        try:
            outcomes += await _ask(peers, address, table, part)
        except TalosError as error:
            return [*outcomes, *[error] * (len(mutations) - len(outcomes))]
    return outcomes


def _part(mutations: Sequence[Mutation], start: int) -> list[Raw]:
    """Encoded mutations from ``start`` on, for one call."""
    part: list[Raw] = []
    size = 0
    for mutation in itertools.islice(mutations, start, None):
        encoded = encode(MutationMessage.of(mutation))
        if part and size + len(encoded) > CALL_BYTES_MAX:
            break
        part.append(Raw(encoded))
        size += len(encoded)
    return part


async def _ask(peers: Peers, address: str, table: TableName, part: list[Raw]) -> Sequence[Outcome]:
    """Raises: Unavailable: none was applied. OutcomeUnknown."""
    request = MutationsRequest(table, cast(list[MutationMessage], part))
    reply = await call_peer(peers, address, TABLE_MUTATIONS, request)
    if len(reply.outcomes) != len(part):
        raise OutcomeUnknown(f"server {address} sent {len(reply.outcomes)} of {len(part)} outcomes")
    return [shown.outcome() for shown in reply.outcomes]


async def ask_mark(peers: Peers, address: str, table: TableName, shard: int, stream: int) -> int:
    """The mark of another server's shard, in milliseconds. Raises: Unavailable."""
    reply = await call_peer(peers, address, TABLE_MARK, MarkRequest(table, shard, stream))
    return reply.mark_ms


async def ask_changed(peers: Peers, address: str, table: TableName) -> None:
    """Return when another server works by the table's newest record. Raises: Unavailable."""
    await call_peer(peers, address, TABLE_CHANGED, TableChangedRequest(table))


def register_calls(
    calls: PeerDispatch,
    apply: Callable[[TableName, Sequence[Mutation]], Awaitable[Sequence[Outcome]]],
    mark: Callable[[TableName, int, int], Awaitable[int]],
    changed: Callable[[TableName], Awaitable[None]],
) -> None:
    """Answer what other servers ask about tables."""

    async def answer_mutations(request: MutationsRequest) -> MutationsReply:
        mutations = [shown.mutation() for shown in request.mutations]
        outcomes = await apply(request.table, mutations)
        return MutationsReply([OutcomeMessage.of(outcome) for outcome in outcomes])

    async def answer_mark(request: MarkRequest) -> MarkReply:
        return MarkReply(await mark(request.table, request.shard, request.stream))

    async def answer_changed(request: TableChangedRequest) -> Empty:
        await changed(request.table)
        return Empty()

    calls.register(TABLE_MUTATIONS, answer_mutations)
    calls.register(TABLE_MARK, answer_mark)
    calls.register(TABLE_CHANGED, answer_changed)
