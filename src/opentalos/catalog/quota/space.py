"""Space accounts: the bytes that a topic or an owner stores, against its quota."""

from collections.abc import Callable
from typing import NoReturn

from opentalos.catalog.quota.quotas import UserQuota, topic_rates, user_rates
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import QuotaExceeded
from opentalos.model.limits import QuotaLimits

UNLIMITED_BYTES = (1 << 63) - 1


class SpaceAccount:
    """Used and allowed bytes. Puts add to it at once; the log's figures correct it."""

    __slots__ = ("limit_bytes", "measured_bytes", "name", "used_bytes")

    def __init__(self, name: str, limit_bytes: int) -> None:
        self.name = name
        self.limit_bytes = limit_bytes or UNLIMITED_BYTES
        self.used_bytes = 0
        self.measured_bytes = -1  # last figure of the log; -1: none yet

    def refuse(self, bytes_count: int) -> NoReturn:
        """Raises: QuotaExceeded with limit and measured value."""
        raise QuotaExceeded(
            f"{self.name}: limit {self.limit_bytes} bytes, measured {self.used_bytes} bytes "
            f"stored, {bytes_count} more requested"
        )


class SpaceLedger:
    """One account per topic and one per owner of topics."""

    def __init__(self, limits: QuotaLimits, user_quota: Callable[[str], UserQuota | None]) -> None:
        self._limits, self._user_quota = limits, user_quota
        self._topics: dict[str, SpaceAccount] = {}  # by resource name
        self._owners: dict[str, SpaceAccount] = {}

    def accounts(self, topic: Topic) -> tuple[SpaceAccount, SpaceAccount]:
        """The topic's account and its owner's, with the limits in force."""
        topic_limit = topic_rates(self._limits, topic.quota).space_bytes or UNLIMITED_BYTES
        user_limit = user_rates(self._limits, self._user_quota(topic.owner)).space_bytes
        of_topic = self._topics.get(topic.resource)
        if of_topic is None:
            of_topic = SpaceAccount(f"space of topic {topic.name}", topic_limit)
            self._topics[topic.resource] = of_topic
        of_topic.limit_bytes = topic_limit
        of_owner = self._owners.get(topic.owner)
        if of_owner is None:
            of_owner = SpaceAccount(f"space of user {topic.owner}", 0)
            self._owners[topic.owner] = of_owner
        of_owner.limit_bytes = user_limit or UNLIMITED_BYTES
        return of_topic, of_owner

    def set_used(self, topic: Topic, used_bytes: int) -> None:
        """Correct a topic's account by the log's figure, and its owner's by the difference."""
        of_topic, of_owner = self.accounts(topic)
        of_owner.used_bytes = max(0, of_owner.used_bytes + used_bytes - of_topic.used_bytes)
        of_topic.used_bytes = of_topic.measured_bytes = used_bytes

    def changed(self) -> list[str]:
        """Resource names of topics with puts since they were last measured."""
        return [
            resource
            for resource, account in self._topics.items()
            if account.used_bytes != account.measured_bytes and account.used_bytes
        ]

    def used(self, topic: Topic) -> int:
        """Bytes the topic stores, as far as known."""
        return self.accounts(topic)[0].used_bytes

    def used_by_owner(self, owner: str) -> int:
        """Bytes all topics of an owner store, as far as known."""
        account = self._owners.get(owner)
        return account.used_bytes if account else 0

    def forget(self, topic: Topic) -> None:
        """The topic is deleted: subtract its bytes from its owner's account."""
        if topic.resource in self._topics:
            self.set_used(topic, 0)
            del self._topics[topic.resource]
