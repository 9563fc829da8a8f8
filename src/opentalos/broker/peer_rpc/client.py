"""Calls to other servers: one rule for deadlines, invalid replies and older servers."""

import asyncio

from opentalos.broker.peer_rpc.calls import PROTOCOL_VERSION, PeerCall, Reply, Request
from opentalos.broker.peer_rpc.codec import decode, encode
from opentalos.model.errors import (
    NotSupported,
    OutcomeUnknown,
    PartitionNotServing,
    TalosError,
)
from opentalos.ports.peers import CallRequest, Peers


class PeerTooOld(PartitionNotServing):
    """Not done: the other server runs a version that does not know the call."""


async def call_peer(
    peers: Peers | None, address: str, call: PeerCall[Request, Reply], request: Request
) -> Reply:
    """The reply of the server at ``address``.

    A call that is not idempotent is sent once: no reply in time, half a reply and an invalid reply
    are OutcomeUnknown. An idempotent call whose reply was lost is sent once more within the same
    deadline; after that it is PartitionNotServing, since nothing was changed. An error of the other
    server is raised as the same leaf.

    Raises: PeerTooOld: the other server does not know the call.
    """
    if peers is None:
        raise RuntimeError("a server without a cluster has no peers")
    sent = CallRequest(call.name, encode(request), PROTOCOL_VERSION)
    failure: type[TalosError] = PartitionNotServing if call.idempotent else OutcomeUnknown
    try:
        async with asyncio.timeout(call.deadline_s):
            body = await _send(peers, address, sent, call.idempotent)
    except TimeoutError as error:
        raise failure(f"server {address}: no reply within {call.deadline_s:g} s") from error
    except NotSupported as error:
        raise PeerTooOld(
            f"server {address} does not know the peer call {call.name!r}, which needs version "
            f"{call.since} of the peer protocol; upgrade that server"
        ) from error
    try:
        return decode(body, call.reply)
    except ValueError as error:
        text = f"server {address} sent an invalid reply to {call.name}: {error}"
        raise failure(text) from error


async def _send(peers: Peers, address: str, request: CallRequest, idempotent: bool) -> bytes:
    try:
        return await peers.ask(address, request)
    except OutcomeUnknown:
        if not idempotent:
            raise
    try:
        return await peers.ask(address, request)
    except OutcomeUnknown as error:
        raise PartitionNotServing(str(error)) from error
