"""Controller: one server decides who serves what, and publishes it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opentalos.broker.cluster.records import ServerRecord
from opentalos.broker.cluster.state import ClusterState
from opentalos.model.limits import ClusterLimits
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import Session
from opentalos.ports.peers import Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What a controller works with.

    ``me``: this server's record. ``topics``: uuid and partition count of every active topic (those
    that consumers see). ``session``: of the meta store, as it is now.
    """

    state: ClusterState
    peers: Peers
    clock: Clock
    limits: ClusterLimits
    me: ServerRecord
    topics: Callable[[], Iterable[tuple[str, int]]]
    session: Callable[[], Session]


class Controller:
    """Runs on every server; the elected one plans and publishes, the others watch over it.

    ``wake`` is to be called (sync, cheap) whenever a control record or a topic changed; the
    ``changed`` of ClusterState and the topic listener may call it for everything.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def start(self) -> None:
        """Start the loop; the state must have been started."""

    async def close(self) -> None:
        """Stop, and give up the lead so that another server takes it at once."""

    def wake(self) -> None:
        """Something changed: look again soon."""

    @property
    def leading(self) -> bool:
        """Whether this server is the controller now."""
        return False
