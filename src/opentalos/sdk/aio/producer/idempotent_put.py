"""The one way in which producers put idempotently: stamps, new epochs, and when to stop."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from opentalos.model.errors import (
    NotSupported,
    OutcomeUnknown,
    RequestError,
    SequenceGap,
    Unavailable,
)
from opentalos.model.message import PRODUCER_ID_MAX, ProducerStamp
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.producer.sequences import Sequences
from opentalos.sdk.core.values import PutReply
from opentalos.wire._generated.topic import TOPIC_SERVICE

RENEWALS_MAX: Final = 3  # new epochs in a row for one put
_OUR_SERVERS: Final = "opentalos "  # prefix of their version

_log = logging.getLogger("opentalos.sdk.producer")


async def deduplicates(client: Client, topic: str, wanted: Literal["auto"] | bool) -> bool:
    """Whether puts are idempotent. Raises: NotSupported: ``wanted`` is True and they cannot be;
    RequestError, Unavailable: the server's version is not known, and nothing was put."""
    if wanted is False:
        return False
    try:
        found = await client.call(TOPIC_SERVICE, "getServiceVersion", None)
    except OutcomeUnknown as error:
        raise Unavailable(f"cannot ask for the server's version: {error}; put again") from error
    if (found.details or "").startswith(_OUR_SERVERS):
        return True
    text = f"no idempotent puts: server {found.details or 'of unknown version'} lacks them"
    if wanted is True:
        raise NotSupported(text)
    _log.warning("%s; messages of topic %s may be stored twice", text, topic)
    return False


def new_producer_id() -> int:
    """A random id of the range for clients, so no call and no coordination is needed."""
    return secrets.randbelow(PRODUCER_ID_MAX) + 1


async def put_once(
    sequences: Sequences,
    resource: str,
    partition: int,
    messages: int,
    put: Callable[[ProducerStamp], Awaitable[PutReply]],
) -> PutReply:
    """Put a block with the next stamp of a partition.

    A log that forgot an idle producer answers SequenceGap to the first attempt; nothing is stored
    then, and the block is put again in a new epoch. That would store it twice if an earlier attempt
    may have stored it, so ``put`` raises OutcomeUnknown for a gap that follows such an attempt
    (RetryPolicy does), and after that nothing is put again.

    Raises: the errors of ``put``.
    """
    renewals = 0
    while True:
        try:
            reply = await put(sequences.stamp(resource, partition))
        except SequenceGap:
            sequences.renew(partition)
            if renewals == RENEWALS_MAX:
                raise
            renewals += 1
        except (RequestError, Unavailable):  # not stored: the next put has the same stamp
            raise
        except BaseException:  # unknown outcome, bug or cancellation: it may be stored
            sequences.renew(partition)
            raise
        else:
            sequences.stored(partition, messages)
            return reply
