"""Both servers of a migration; errors say at which of them they happened."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentalos.model import errors
from opentalos.sdk.aio import Client
from opentalos.sdk.aio.admin import TalosAdmin


@dataclass(frozen=True, slots=True)
class Sides:
    """Clients of the source and of the target, on one event loop."""

    source: Client
    target: Client

    @property
    def source_admin(self) -> TalosAdmin:
        """Administration at the source; it only reads."""
        return TalosAdmin(self.source)

    @property
    def target_admin(self) -> TalosAdmin:
        """Administration at the target."""
        return TalosAdmin(self.target)


@contextmanager
def at(side: str, client: Client, topic: str = "") -> Iterator[None]:
    """Add to errors where they happened and what to do."""
    try:
        yield
    except errors.TalosError as error:
        where = f"topic {topic} at the {side}" if topic else f"the {side}"
        error.add_note(f"{where} ({client.config.endpoints[0]}){_remedy(side, error)}")
        raise


def _remedy(side: str, error: errors.TalosError) -> str:
    again = "run the same command again, it continues where it was"
    if isinstance(error, errors.PermissionDenied) and side == "source":
        return "; its key needs the permissions DESCRIBE_TOPIC and GET_MESSAGE (talos acl grant)"
    if isinstance(error, errors.PermissionDenied):
        return "; its key must own the topic, or be an administrator's"
    if isinstance(error, errors.QuotaExceeded):
        return f"; raise the quota (talos quota), then {again}"
    if isinstance(error, errors.StorageFull):
        return f"; make room, then {again}"
    if isinstance(error, errors.ThrottleRejected):
        return f"; pass --rate with less than the quota, and {again}"
    if isinstance(error, errors.InvalidCredential):
        return f"; check the key (--{side}-as, --{side}-key-file, TALOS_{side.upper()}_KEY)"
    if isinstance(error, errors.Unavailable | errors.OutcomeUnknown):
        return f"; {again}"
    return ""
