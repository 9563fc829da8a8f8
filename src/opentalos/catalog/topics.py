"""All topics in memory, loaded from the MetaStore and changed by compare-and-set."""

from opentalos.catalog.topic import Topic
from opentalos.model.identity import Principal


class TopicCatalog:
    """The topic records. Only topics that are not being deleted can be looked up."""

    def by_resource(self, resource: str) -> Topic | None:
        """The topic of that resource name; sync, for the hot path."""
        raise NotImplementedError

    def find(self, caller: Principal, name: str) -> Topic:
        """Resolve a plain name, ``owner/name`` or a resource name for a caller.

        Raises: TopicNotExist: unknown, or nothing was granted: both answer alike.
        """
        raise NotImplementedError
