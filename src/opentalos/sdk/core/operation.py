"""One call as a value: its request, its target, and the meaning of a reply; no I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from opentalos.model.errors import OutcomeUnknown
from opentalos.sdk.errors import error_of_application, error_of_exception, error_of_status
from opentalos.wire.thrift.error import ApplicationError, ThriftError
from opentalos.wire.thrift.message import ThriftProtocol, decode_reply, encode_call, protocol_of
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec

_SEQID: Final = 1
_TEXT_CHARS_MAX: Final = 500  # shown of a reply that is not Thrift
# Prefixes of methods that only read.
_READS: Final = (
    "get", "query", "describe", "list", "lookup", "match", "check", "valid", "find", "scan",
)  # fmt: skip


class Reply(NamedTuple):
    """A complete HTTP reply; look header names up in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """One call with all its attempts. ``request`` is a tuple if the method takes several
    arguments; ``check`` finds errors inside a reply."""

    service: ServiceSpec
    method: MethodSpec
    request: Any
    repeatable: bool = False  # retry also after an unknown outcome
    topic: str = ""  # its resource name
    partition: int | None = None  # sent to the server of this partition; None: to the endpoint
    check: Callable[[Any], None] | None = None
    views: bool = False  # binary fields of the result are views of the reply, not copies
    stamped: bool = False  # an idempotent put, which marks retries

    @property
    def reads(self) -> bool:
        """Whether the call only reads."""
        acts = getattr(self.request, "action", None) is not None  # a scan that also writes
        return self.method.name.startswith(_READS) and not acts

    def encode(self) -> bytes:
        """Encode the request body."""
        arguments = self.request if isinstance(self.request, tuple) else (self.request,)
        if not self.method.arguments:
            arguments = ()
        return encode_call(ThriftProtocol.COMPACT, self.method, _SEQID, *arguments)


def result_of(url: str, method: MethodSpec, reply: Reply, *, views: bool = False) -> Any:
    """The result of a reply. ``views``: as in ``Operation``.

    Raises: the error in it; OutcomeUnknown: not a valid reply.
    """
    where = f"{method.name} at {url}"
    if protocol_of(reply.headers.get("Content-Type", "")) is not ThriftProtocol.COMPACT:
        text = reply.body[:_TEXT_CHARS_MAX].decode("utf-8", "replace").strip()
        raise error_of_status(reply.status, text, where)
    try:
        decoded = decode_reply(ThriftProtocol.COMPACT, method, reply.body, views=views)
    except ApplicationError as error:
        raise error_of_application(error) from error
    except ThriftError as error:
        raise OutcomeUnknown(f"{where} failed: invalid reply: {error}") from error
    if decoded.seqid != _SEQID:
        raise OutcomeUnknown(f"{where} failed: the reply belongs to another call")
    if decoded.error is not None:
        raise error_of_exception(method.name, decoded.error)
    return decoded.result
