"""Mutations, marks and changed tables between the servers of a cluster.

``shards.py`` asks the owner of a shard through these functions, and answers other servers with
what it registers here.
"""

from collections.abc import Awaitable, Callable, Sequence

from opentalos.broker.peer_rpc.calls import TABLE_CHANGED, TABLE_MARK, TABLE_MUTATIONS
from opentalos.broker.peer_rpc.client import call_peer
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

Outcome = Applied | TalosError


async def ask_mutations(
    peers: Peers, address: str, table: TableName, mutations: Sequence[Mutation]
) -> Sequence[Outcome]:
    """Outcomes of mutations that another server applies.

    Raises: Unavailable: none was applied. OutcomeUnknown.
    """
    request = MutationsRequest(table, [MutationMessage.of(mutation) for mutation in mutations])
    reply = await call_peer(peers, address, TABLE_MUTATIONS, request)
    if len(reply.outcomes) != len(mutations):
        raise OutcomeUnknown(
            f"server {address} sent {len(reply.outcomes)} of {len(mutations)} outcomes"
        )
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
