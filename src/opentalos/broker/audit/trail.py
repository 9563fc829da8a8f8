"""AuditTrail: records every change of what tenants own, and every denial.

Use cases that change something are decorated with ``audited``; the authorizer reports denials.
Each event is a line of the logger ``opentalos.audit`` and, once the server has connected a sink,
an event of the topic ``__audit``. Recording never raises and never waits, so the audit cannot
fail a call; what a full sink drops is counted by the sink.
"""

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from opentalos.model.errors import (
    InvalidName,
    NothingThere,
    NotOwner,
    OutcomeUnknown,
    PermissionDenied,
    TalosError,
)
from opentalos.model.identity import GUEST, Principal
from opentalos.model.names import ResourceName
from opentalos.model.settings.security import AuditSettings
from opentalos.ports.clock import Clock
from opentalos.wire.metrics.audit_event import (
    DETAILS_MAX,
    TEXT_CHARS_MAX,
    AuditEvent,
    AuditOutcome,
)

_ID_BYTES: Final = 8
_AUDIT: Final = logging.getLogger("opentalos.audit")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_S = TypeVar("_S", bound="Audited")

Sink = Callable[[bytes], None]


class Origin(NamedTuple):
    """Where a call came from: the client's address, also of a forwarded call, and its id."""

    address: str = ""
    request: str = ""


class Act(NamedTuple):
    """What was tried. ``owner``: see AuditEvent."""

    action: str
    resource: str
    owner: str
    details: Mapping[str, object] = {}


class AuditTrail:
    """Args: origin: of the call under way, for the server to set."""

    def __init__(self, clock: Clock, settings: AuditSettings, server: str) -> None:
        self._clock, self._settings, self._server = clock, settings, server
        self._sink: Sink | None = None
        self._origin: Callable[[], Origin] = Origin
        self._window_s = float("-inf")
        self._failures = 0  # of this second
        self._left_out = 0  # failures since the last one that was recorded
        self.recorded = 0  # events since the start
        self.lost: Callable[[], int] = int  # events that the sink dropped since the start

    def connect(self, sink: Sink | None, origin: Callable[[], Origin]) -> None:
        """Send events to the sink from now on; it must not raise, and counts what it drops."""
        self._sink, self._origin = sink, origin

    def record(self, caller: Principal, act: Act, error: BaseException | None = None) -> None:
        """The outcome of an act. Failures are recorded up to a rate, then counted."""
        if error is not None and not isinstance(error, OutcomeUnknown) and self._excessive():
            return
        outcome = _outcome_of(error)
        event = self._event(caller, act, outcome, "" if error is None else type(error).__name__)
        shown = {
            name: value
            for name, value in event._asdict().items()
            if value and name not in ("id", "at_ms", "server", "request", "details")
        }
        line = " ".join(f"{name}={value!r}" for name, value in {**shown, **event.details}.items())
        _AUDIT.info("audit %s", line, extra={"audit": shown})
        self._send(event)

    def denied(self, caller: Principal, action: str, resource: str, left_out: int) -> None:
        """A denial, which the authorizer has logged and bounded.

        Args: left_out: denials since the last one that were only counted.
        """
        details = {"left_out": left_out} if left_out else {}
        act = Act(action, resource, owner_of(resource, caller), details)
        self._send(self._event(caller, act, AuditOutcome.DENIED, PermissionDenied.__name__))

    def refused(self, act: Act, address: str, error: str) -> None:
        """A failed authentication, which the gateway has logged and ``RefusedCallers`` bounded."""
        origin = Origin(address)
        self._send(self._event(GUEST, act, AuditOutcome.FAILED, error, origin))

    def _event(
        self,
        caller: Principal,
        act: Act,
        outcome: AuditOutcome,
        error: str,
        origin: Origin | None = None,
    ) -> AuditEvent:
        origin = origin or self._origin()
        details = {
            name: _shown(value) for name, value in act.details.items() if value not in (None, "")
        }
        if self._left_out and error:
            details["left_out"], self._left_out = str(self._left_out), 0
        return AuditEvent(
            id=self._clock.token(_ID_BYTES).hex() if self._sink is not None else "",
            at_ms=self._clock.wall_ms(),
            server=self._server,
            principal=caller.id,
            tenant=caller.owner_id,
            address=origin.address,
            request=origin.request,
            action=act.action,
            resource=act.resource[:TEXT_CHARS_MAX],
            owner=act.owner[:TEXT_CHARS_MAX],
            outcome=outcome.value,
            error=error,
            details=dict(list(details.items())[:DETAILS_MAX]),
        )

    def _send(self, event: AuditEvent) -> None:
        self.recorded += 1
        if self._sink is not None:
            self._sink(event.encode())

    def _excessive(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._window_s >= 1.0:
            self._window_s, self._failures = now_s, 0
        self._failures += 1
        excessive = self._failures > self._settings.failures_per_s_max
        self._left_out += excessive
        return excessive


class Audited(Protocol):
    """A service with audited methods."""

    _audit: AuditTrail


def audited(
    action: str,
    resource: str = "",
    *details: str,
    owner: Callable[[Any, str], str] | None = None,
    secretless: Callable[[Any], Mapping[str, object]] | None = None,
) -> Callable[
    [Callable[Concatenate[_S, Principal, _P], Coroutine[Any, Any, _T]]],
    Callable[Concatenate[_S, Principal, _P], Coroutine[Any, Any, _T]],
]:
    """Record each call of a use case, whose first argument is the caller.

    Denials are the authorizer's to report, and a call that another server answers is recorded
    there.

    Args: resource: the argument that names it, or an attribute of an argument, as in "new.name";
        details: arguments to record, none of which may be secret; owner: finds the owner of the
        resource, by the service; secretless: further details, from the result.
    """

    def wrap(
        method: Callable[Concatenate[_S, Principal, _P], Coroutine[Any, Any, _T]],
    ) -> Callable[Concatenate[_S, Principal, _P], Coroutine[Any, Any, _T]]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        async def run(self: _S, caller: Principal, /, *args: _P.args, **named: _P.kwargs) -> _T:
            bound = signature.bind(self, caller, *args, **named).arguments
            text = str(_value(bound, resource) or "") if resource else ""
            whose = _owner(owner, self, text, caller) if resource else ""
            known = {name.rpartition(".")[2]: _value(bound, name) for name in details}
            act = Act(action, text, whose, known)
            try:
                result = await method(self, caller, *args, **named)
            except (PermissionDenied, NothingThere, NotOwner):
                raise
            except TalosError as error:
                self._audit.record(caller, act, error)
                raise
            self._audit.record(caller, _finished(act, result, secretless))
            return result

        return run

    return wrap


def owner_of(resource: str, caller: Principal) -> str:
    """Owner id in the name of a topic or table; a plain name is of the caller."""
    if "#" in resource:
        try:
            return ResourceName.parse(resource.partition("/")[0]).owner
        except InvalidName:
            return caller.owner_id
    owner, slash, _ = resource.rpartition("/")
    return owner if slash else caller.owner_id


def _owner(
    find: Callable[[Any, str], str] | None, service: object, resource: str, caller: Principal
) -> str:
    return find(service, resource) if find and resource else owner_of(resource, caller)


def itself(_: object, resource: str) -> str:
    """The owner of a resource that is a principal or an organisation."""
    return resource


def of_service(_: object, _resource: str) -> str:
    """The owner of what belongs to the service."""
    return ""


def _finished(
    act: Act, result: object, secretless: Callable[[Any], Mapping[str, object]] | None
) -> Act:
    """What was made names itself."""
    resource, owner = getattr(result, "resource", None), getattr(result, "owner", None)
    if isinstance(resource, str) and isinstance(owner, str):
        act = act._replace(resource=resource, owner=owner)
    if secretless is not None:
        act = act._replace(details={**act.details, **secretless(result)})
    return act


def _outcome_of(error: BaseException | None) -> AuditOutcome:
    if error is None:
        return AuditOutcome.DONE
    return AuditOutcome.UNKNOWN if isinstance(error, OutcomeUnknown) else AuditOutcome.FAILED


def _value(arguments: Mapping[str, Any], path: str) -> Any:
    name, _, attribute = path.partition(".")
    found = arguments.get(name)
    return getattr(found, attribute, None) if attribute else found


def _shown(value: object) -> str:
    """A bounded text; of a mapping the names only, since its values are the caller's."""
    if isinstance(value, Enum):
        text = value.name or str(value.value)
    elif is_dataclass(value):
        found = {item.name: getattr(value, item.name) for item in fields(value)}
        text = " ".join(f"{name}={_shown(part)}" for name, part in found.items() if part)
    elif isinstance(value, Mapping):
        text = ",".join(map(str, value))
    else:
        text = str(value)
    return text[:TEXT_CHARS_MAX]
