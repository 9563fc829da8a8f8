"""RemoteMessages: blocks of partitions that other servers of the cluster serve."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.messages import GetQuery
from opentalos.catalog.access.authorize import topic_not_exist
from opentalos.model.errors import BadRequest, PartitionNotServing
from opentalos.model.message import StoredBlock

CALL = "messages"
ASK_S = 5.0  # for another server's answer
HOLD_S = 0.5  # it waits so long for messages that are not there yet


class RemoteMessages:
    """Reads through the server that has the partition. The asking server has authorised."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def read(self, address: str, query: GetQuery) -> tuple[Sequence[StoredBlock], int]:
        """Blocks, and how many messages follow the last of them.

        Raises: what the other server raises; PartitionNotServing: it does not answer.
        """
        peers = self._context.peers
        if peers is None:
            raise RuntimeError("a lone server has nobody to ask")
        try:
            async with asyncio.timeout(ASK_S):
                answer = await peers.ask(address, CALL, query._asdict())
            blocks = [_block(one) for one in answer["blocks"]]
            return blocks, int(answer["unhandled"])
        except TimeoutError as error:
            text = f"server {address}: no answer within {ASK_S} s"
            raise PartitionNotServing(text) from error
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            text = f"server {address} sent an answer of no meaning"
            raise PartitionNotServing(text) from error

    async def answer(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Another server reads a partition that this one serves. Raises: BadRequest."""
        try:
            query = GetQuery(**arguments)
        except TypeError as error:
            raise BadRequest(f"need the fields of a query: {error}") from error
        topic = self._context.topics.by_resource(query.resource)
        if topic is None:
            raise topic_not_exist(query.resource)
        limits = self._context.config.message
        read = await self._context.partition_log(topic, query.partition).read(
            query.offset,
            messages_max=min(query.messages_max, limits.get_messages_max),
            bytes_max=min(query.bytes_max, limits.get_bytes_max),
            hold_s=HOLD_S,
        )
        end = read.blocks[-1].next_offset if read.blocks else read.range.next
        return {
            "blocks": [_shown(block) for block in read.blocks],
            "unhandled": max(0, read.range.next - end),
        }


def _shown(block: StoredBlock) -> Mapping[str, Any]:
    shown = block._asdict()
    for name in ("payload", "extras"):
        shown[name] = base64.b64encode(shown[name]).decode()
    return shown


def _block(shown: Mapping[str, Any]) -> StoredBlock:
    values = dict(shown)
    for name in ("payload", "extras"):
        values[name] = base64.b64decode(values[name])
    return StoredBlock(**values)
