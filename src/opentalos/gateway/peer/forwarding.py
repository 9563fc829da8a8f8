"""Forwarding: sends a request to the server that can answer it, and its reply back.

Every gateway hands it requests that failed with NotOwner. A request is forwarded once; the other
server never forwards again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from opentalos.broker.cluster.ownership import Ownership
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import TEXT, head
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.model.errors import (
    InvalidCredential,
    NothingThere,
    NotOwner,
    PartitionNotServing,
    TalosError,
    TopicNotExist,
    Unavailable,
)
from opentalos.ports.peers import Forwarded, Peers, Reply
from opentalos.wire.peer_proof import TRANSFER

# The forwarder knows a topic that this server's watch will show soon.
TOPIC_LOOKS_MAX = 8
TOPIC_LOOK_S = 0.1
# In plain text these mean that the other server did not process the request: it starts, it stops,
# it has too many connections, or it does not accept our proof.
_NOT_PROCESSED = (403, 503)
_SHOWN_BYTES_MAX = 200
_ERRORS = 400  # and the statuses above it
_OWN_HEADERS = frozenset(
    (b"connection", b"content-length", b"content-type", b"date", b"keep-alive")
)

# Whether another server has just made the topic or partition that a call did not find.
Appeared = Callable[[NothingThere], Awaitable[bool]]


class Forwarding:
    """Forwards once, verbatim; a request that was forwarded to this server never goes further."""

    def __init__(
        self,
        peers: Peers,
        proofs: ProofReader,
        ownership: Ownership,
        appeared: Appeared | None = None,
    ) -> None:
        self._peers, self._proofs, self._ownership = peers, proofs, ownership
        self._appeared = appeared
        self.requests = 0  # sent on
        self.bytes_out = 0  # their bodies
        self.bytes_in = 0  # bodies of their replies
        self.failures = 0  # of them, without a reply
        self.received = 0  # sent on to this server by others

    def counters(self) -> dict[str, int]:
        """All counts since the start."""
        return {
            "requests": self.requests,
            "bytes_out": self.bytes_out,
            "bytes_in": self.bytes_in,
            "failures": self.failures,
            "received": self.received,
            "refused_proofs": self._proofs.refused,
        }

    def accept(self, exchange: Exchange) -> bool:
        """Check the proof of a forwarded request; False: it has none that holds, and is refused."""
        if TRANSFER not in exchange.headers:
            return True
        try:
            self._proofs.transfer(exchange)
        except InvalidCredential as error:
            exchange.reply_text(403, str(error))
            return False
        self.received += 1
        return True

    async def elsewhere(
        self, exchange: Exchange, error: TalosError, again: Callable[[], Awaitable[None]]
    ) -> None:
        """Answer a request that failed because this server does not serve it (``is_elsewhere``).

        ``again`` runs it once more, for the same caller.

        Raises: PartitionNotServing: not done; OutcomeUnknown; what ``again`` raises.
        """
        if isinstance(error, NothingThere):
            if self._appeared is None or not await self._appeared(error):
                if not exchange.forwarder or not isinstance(error, TopicNotExist):
                    raise error
                await _until_known(again)
                return
            try:
                await again()
                return
            except NotOwner as elsewhere:
                if not is_elsewhere(exchange, elsewhere):
                    raise
                error = elsewhere
        assert isinstance(error, NotOwner)
        if not exchange.forwarder:
            await self._forward(exchange, error)
        else:
            await self._ownership.catch_up(error.topic_uuid)
            await again()

    async def _forward(self, exchange: Exchange, error: NotOwner) -> None:
        query = b"?" + exchange.query if exchange.query else b""
        # The other server does not see the client's certificate.
        client = f"{exchange.peer} {exchange.named}" if exchange.named else exchange.peer
        request = Forwarded(
            exchange.method, exchange.path + query, exchange.headers, exchange.body, client
        )
        self.requests += 1
        self.bytes_out += len(exchange.body)
        answered = False
        try:
            reply = await self._peers.forward(error.address, request)
            _check_processed(reply)
            answered = True
        except Unavailable as unsent:
            raise PartitionNotServing(f"not forwarded: {unsent}") from unsent
        finally:
            self.failures += not answered
        self.bytes_in += len(reply.body)
        if reply.status >= _ERRORS:
            exchange.failure = f"http_{reply.status}"
        exchange.reply(*_relayed(reply))


def is_elsewhere(exchange: Exchange, error: BaseException) -> bool:
    """Whether ``elsewhere`` can handle it."""
    if exchange.answered:
        return False
    if isinstance(error, NotOwner):
        return bool(error.address or exchange.forwarder)
    return isinstance(error, NothingThere) and bool(exchange.forwarder or error.records)


async def _until_known(again: Callable[[], Awaitable[None]]) -> None:
    for _ in range(TOPIC_LOOKS_MAX):
        await asyncio.sleep(TOPIC_LOOK_S)
        try:
            await again()
        except TopicNotExist:
            continue
        return
    # Two servers disagree about the topic. Clients stop permanently if it is reported as gone.
    raise PartitionNotServing("this server does not know the topic: it was just created or deleted")


def _check_processed(reply: Reply) -> None:
    """Raises: PartitionNotServing: the other server did nothing."""
    content_type = dict(reply.headers).get(b"Content-Type", TEXT)
    if reply.status in _NOT_PROCESSED and content_type.startswith(b"text/plain"):
        reason = reply.body[:_SHOWN_BYTES_MAX].decode("utf-8", "replace").strip()
        raise PartitionNotServing(f"the other server answered {reply.status}: {reason}")


def _relayed(reply: Reply) -> tuple[bytes, bytes, bytes]:
    """Head, body and further header lines of the reply to the client."""
    content_type, lines = TEXT, list[bytes]()
    for name, value in reply.headers:
        lowered = name.lower()
        if lowered == b"content-type":
            content_type = value
        elif lowered not in _OWN_HEADERS:
            lines.append(b"%b: %b\r\n" % (name, value))
    return head(reply.status, content_type), reply.body, b"".join(lines)
