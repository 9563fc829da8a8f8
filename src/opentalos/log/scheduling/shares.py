"""What one tenant and one topic may hold of what all partitions of a server share.

A tenant may hold as much as is still free, a topic half of that, and each at least a little. So one
alone gets half of it and many get less each, without a setting for each; something is always left
for the next one, however many hang.
"""


class Share:
    """What one tenant or topic holds now; partitions add to it and subtract."""

    __slots__ = ("given_up", "hanging", "lanes", "name", "pending_bytes", "steps")

    def __init__(self, name: str) -> None:
        self.name = name  # as error texts name it
        self.pending_bytes = 0  # of puts that wait for their commit
        self.lanes = 0  # commit lanes that its partitions keep for themselves
        self.hanging = 0  # of a tenant: slow steps under way, given up or not
        self.given_up = 0  # steps that the store has left unanswered
        self.steps = 0  # openings and jobs under way, beside the lanes


class Shares:
    """One share for each tenant and topic with a log in memory; bounded by them."""

    def __init__(self) -> None:
        self._tenants: dict[str, Share] = {}
        self._topics: dict[str, Share] = {}

    def of_tenant(self, tenant: str) -> Share:
        """The share of a tenant, which stays as long as the server runs."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = Share(f"tenant {tenant}")
        return found

    def of_topic(self, topic_uuid: str) -> Share:
        """The share of a topic, until it is forgotten."""
        found = self._topics.get(topic_uuid)
        if found is None:
            found = self._topics[topic_uuid] = Share(f"topic {topic_uuid}")
        return found

    def forget_topic(self, topic_uuid: str) -> None:
        """The topic is gone; what its last partitions hold is not shared any more."""
        self._topics.pop(topic_uuid, None)
