"""The administration client for asyncio."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from opentalos.sdk.aio.admin import structs
from opentalos.sdk.aio.admin.group_admin import GroupAdmin
from opentalos.sdk.aio.admin.permission_admin import PermissionAdmin
from opentalos.sdk.aio.admin.quota_admin import QuotaAdmin
from opentalos.sdk.aio.admin.topic_admin import TopicAdmin, find
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import (
    OffsetRange,
    TopicRef,
    position_ms,
)
from opentalos.wire._generated import message
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire._generated.topic import TOPIC_SERVICE


class TalosAdmin:
    """Administers ``topics``, ``permissions``, ``quotas`` and ``groups``, and looks up offsets.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        self._client, self._owned = attach(client)
        self.topics = TopicAdmin(self._client)
        self.permissions = PermissionAdmin(self._client)
        self.quotas = QuotaAdmin(self._client)
        self.groups = GroupAdmin(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def offsets(
        self, name: str | TopicRef, partitions: Sequence[int] | None = None
    ) -> dict[int, OffsetRange]:
        """The retained offsets by partition; ``partitions`` None: all."""
        ref = await find(self._client, name)
        return await self._client.offsets(ref, _wanted(ref, partitions))

    async def offsets_at(
        self,
        name: str | TopicRef,
        time: datetime | int,
        partitions: Sequence[int] | None = None,
    ) -> dict[int, int]:
        """By partition, the offset of the first message stored at or after a time, else the end
        offset. ``time``: with a time zone, or Unix milliseconds."""
        ref = await find(self._client, name)
        time_ms = time if isinstance(time, int) else position_ms(time)
        return await self._client.offsets_at(ref, dict.fromkeys(_wanted(ref, partitions), time_ms))

    async def preview(self, name: str | TopicRef, partition: int) -> tuple[dict[str, str], ...]:
        """The latest messages of a partition as text by column. Raises: PreviewFailed."""
        ref = await find(self._client, name)
        request = message.GetDataPreviewRequest(topicAndPartition=structs.place(ref, partition))
        found = await self._client.call(MESSAGE_SERVICE, "getDataPreview", request)
        return tuple(found.messageLists)

    async def server_version(self) -> str:
        """The name and version the server reports."""
        found = await self._client.call(TOPIC_SERVICE, "getServiceVersion", None)
        return found.details or f"{found.major}.{found.minor}.{found.revision}"

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            await self._client.close()


def _wanted(ref: TopicRef, partitions: Sequence[int] | None) -> Sequence[int]:
    return range(ref.consumer_partitions) if partitions is None else partitions
