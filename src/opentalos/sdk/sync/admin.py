"""Administration for synchronous code; each call is that of the asyncio class of the same name."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from opentalos.sdk import aio
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import (
    Grantee,
    OffsetRange,
    PartitionLag,
    PartitionQuota,
    Permission,
    Quota,
    TopicDescription,
    TopicInfo,
    TopicRef,
    UserQuota,
)
from opentalos.sdk.sync.client import Bound, Client, attach


class TopicAdmin:
    """Topics and their attributes. A topic is given by its name or by what ``create`` returned."""

    def __init__(self, on: Bound[aio.TalosAdmin]) -> None:
        self._on = on

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        retention_s: int | None = None,
        attributes: Mapping[str, str] | None = None,
        quota: Quota | None = None,
        permissions: Mapping[str | Grantee, Permission] | None = None,
    ) -> TopicRef:
        """Make a topic; what is left out is the server's default.

        Args:    name: ``name`` or ``organisation/name``; permissions: by grantee.
        Raises:  TopicExists, InvalidName, InvalidTopicParams, QuotaExceeded: not done.
                 OutcomeUnknown: describe tells whether it was made.
        """
        return self._on(
            lambda admin: admin.topics.create(
                name,
                partitions=partitions,
                retention_s=retention_s,
                attributes=attributes,
                quota=quota,
                permissions=permissions,
            )
        )

    def describe(self, name: str) -> TopicDescription:
        """Everything about a topic. Raises: TopicNotExist, PermissionDenied."""
        return self._on(lambda admin: admin.topics.describe(name))

    def list(self) -> tuple[TopicInfo, ...]:
        """Topics that the caller or its organisation owns, by name."""
        return self._on(lambda admin: admin.topics.list())

    def change(
        self,
        name: str | TopicRef,
        *,
        partitions: int | None = None,
        retention_s: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Change what is given; ``attributes`` are added to those there are.

        Raises: InvalidTopicParams, ChangePartitionTooFast, PermissionDenied: not done.
        """
        self._on(
            lambda admin: admin.topics.change(
                name, partitions=partitions, retention_s=retention_s, attributes=attributes
            )
        )

    def delete_attribute(self, name: str | TopicRef, key: str) -> None:
        """Remove one attribute."""
        self._on(lambda admin: admin.topics.delete_attribute(name, key))

    def set_owner(self, name: str | TopicRef, owner_name: str, charge_id: str = "") -> None:
        """Say who is responsible for a topic, and whom it is charged to."""
        self._on(lambda admin: admin.topics.set_owner(name, owner_name, charge_id))

    def delete(self, name: str | TopicRef) -> None:
        """Delete a topic with all its messages. Given a TopicRef, no topic that was made anew
        under its name is deleted.
        """
        self._on(lambda admin: admin.topics.delete(name))


class PermissionAdmin:
    """Who may do what with a topic. A grantee given as text is a developer."""

    def __init__(self, on: Bound[aio.TalosAdmin]) -> None:
        self._on = on

    def grant(self, name: str | TopicRef, grantee: str | Grantee, permission: Permission) -> None:
        """Let a grantee do exactly this; overwrites what it could do before."""
        self._on(lambda admin: admin.permissions.grant(name, grantee, permission))

    def revoke(self, name: str | TopicRef, grantee: str | Grantee) -> None:
        """Take everything back from a grantee."""
        self._on(lambda admin: admin.permissions.revoke(name, grantee))

    def list(self, name: str | TopicRef) -> dict[str, Permission]:
        """What each grantee may do."""
        return self._on(lambda admin: admin.permissions.list(name))

    def get(self, name: str | TopicRef, grantee: str | Grantee) -> Permission:
        """What one grantee may do."""
        return self._on(lambda admin: admin.permissions.get(name, grantee))


class QuotaAdmin:
    """Limits of users and topics, and partition quotas of organisations."""

    def __init__(self, on: Bound[aio.TalosAdmin]) -> None:
        self._on = on

    def own(self) -> UserQuota:
        """The caller's limits, with their use."""
        return self._on(lambda admin: admin.quotas.own())

    def topic(self, name: str | TopicRef) -> Quota:
        """A topic's limits in force, with their use."""
        return self._on(lambda admin: admin.quotas.topic(name))

    def set_topic(self, name: str | TopicRef, limits: Quota) -> None:
        """Set a topic's limits."""
        self._on(lambda admin: admin.quotas.set_topic(name, limits))

    def reset_topic(self, name: str | TopicRef) -> None:
        """Back to the defaults."""
        self._on(lambda admin: admin.quotas.reset_topic(name))

    def users(self) -> dict[str, UserQuota]:
        """Every user's limits that were set, by developer id."""
        return self._on(lambda admin: admin.quotas.users())

    def set_user(self, user: str, limits: UserQuota) -> None:
        """Set a user's limits; ``user`` is a developer id."""
        self._on(lambda admin: admin.quotas.set_user(user, limits))

    def reset_user(self, user: str) -> None:
        """Back to the defaults."""
        self._on(lambda admin: admin.quotas.reset_user(user))

    def apply(self, wanted: PartitionQuota, *, automatic: bool = False) -> None:
        """Ask for partitions of an organisation.

        Args:    automatic: grant it at once if it is small enough, else QuotaAutoApproveFailed.
        """
        self._on(lambda admin: admin.quotas.apply(wanted, automatic=automatic))

    def list(self) -> tuple[PartitionQuota, ...]:
        """Partition quotas of the caller's organisation."""
        return self._on(lambda admin: admin.quotas.list())

    def pending(self) -> tuple[PartitionQuota, ...]:
        """Requests that wait for a decision."""
        return self._on(lambda admin: admin.quotas.pending())

    def approve(self, wanted: PartitionQuota) -> tuple[PartitionQuota, ...]:
        """Grant a request; the requests that still wait."""
        return self._on(lambda admin: admin.quotas.approve(wanted))

    def revoke(self, wanted: PartitionQuota) -> tuple[PartitionQuota, ...]:
        """Refuse a request or take an approval back; the requests that still wait."""
        return self._on(lambda admin: admin.quotas.revoke(wanted))


class GroupAdmin:
    """Consumer groups of a topic."""

    def __init__(self, on: Bound[aio.TalosAdmin]) -> None:
        self._on = on

    def list(self, name: str | TopicRef) -> tuple[str, ...]:
        """Names of a topic's groups, sorted."""
        return self._on(lambda admin: admin.groups.list(name))

    def lag(self, name: str | TopicRef, group: str) -> tuple[PartitionLag, ...]:
        """How far a group is, by partition."""
        return self._on(lambda admin: admin.groups.lag(name, group))

    def lags(self, name: str | TopicRef) -> dict[str, tuple[PartitionLag, ...]]:
        """How far every group is, by partition."""
        return self._on(lambda admin: admin.groups.lags(name))

    def workers(self, name: str | TopicRef, group: str) -> dict[str, tuple[int, ...]]:
        """Live workers of a group with the partitions they hold."""
        return self._on(lambda admin: admin.groups.workers(name, group))

    def delete(self, name: str | TopicRef, group: str) -> None:
        """Forget a group and its checkpoints.

        Raises: ConsumerGroupWorking: it has live workers; ConsumerGroupNotExist: not done.
        """
        self._on(lambda admin: admin.groups.delete(name, group))


class TalosAdmin:
    """As ``opentalos.sdk.aio.TalosAdmin``; any thread may use it, also in a forked child.

    Args: client: shared with other objects, or a configuration for a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        self._client, self._owned = attach(client)
        self._on = self._client.bind(aio.TalosAdmin)
        self.topics = TopicAdmin(self._on)
        self.permissions = PermissionAdmin(self._on)
        self.quotas = QuotaAdmin(self._on)
        self.groups = GroupAdmin(self._on)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offsets(
        self, name: str | TopicRef, partitions: Sequence[int] | None = None
    ) -> dict[int, OffsetRange]:
        """Retained offsets by partition; of all partitions if none are named."""
        return self._on(lambda admin: admin.offsets(name, partitions))

    def offsets_at(
        self,
        name: str | TopicRef,
        time: datetime | int,
        partitions: Sequence[int] | None = None,
    ) -> dict[int, int]:
        """By partition the offset of the first message stored at or after a time, else the next
        offset. ``time``: with a zone, or Unix milliseconds."""
        return self._on(lambda admin: admin.offsets_at(name, time, partitions))

    def preview(self, name: str | TopicRef, partition: int) -> tuple[dict[str, str], ...]:
        """The latest messages of a partition as text, by column. Raises: PreviewFailed."""
        return self._on(lambda admin: admin.preview(name, partition))

    def server_version(self) -> str:
        """What the server says it is."""
        return self._on(lambda admin: admin.server_version())

    def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            self._client.close()
