"""Outcomes of one item of an administrative request: a code, and a text for people."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.gateway import Services
from opentalos.model.errors import NothingThere, TalosError
from opentalos.wire.kafka.errors import ErrorCode

ITEMS_MAX: Final = 2_000  # of one request; the others are refused
COST: Final = 32  # of an item, in those of ``KafkaCall.piece``
THROTTLE_MS: Final = 1_000  # that a client waits after its rate of changes was exceeded
_DEADLINE_MS_MAX: Final = 600_000  # whatever a client asks for

T = TypeVar("T")


class Refused(Exception):
    """An item that cannot be done, with the code that says why; nothing was changed."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Outcome(NamedTuple):
    """``text``: None if it is done."""

    code: int = int(ErrorCode.NONE)
    text: str | None = None

    @property
    def throttle_ms(self) -> int:
        """What the response asks the client to wait."""
        return THROTTLE_MS if self.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED else 0


DONE: Final = Outcome()
Codes = Mapping[ErrorCode, ErrorCode]  # of an error, where a request says it in another way


def outcome_of(error: TalosError | Refused, codes: Codes | None = None) -> Outcome:
    """The outcome of an item that failed."""
    if isinstance(error, Refused):
        return Outcome(int(error.code), str(error))
    code = code_of(error)
    return Outcome(int((codes or {}).get(code, code)), str(error))


def throttle_codes(known: bool) -> Codes:
    """Clients of older versions do not know the code of an exceeded rate."""
    return {} if known else {ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorCode.POLICY_VIOLATION}


async def found(services: Services, find: Callable[[], T]) -> T:
    """What ``find`` returns, also if another server made it just now. Raises: what it raises."""
    try:
        return find()
    except NothingThere as error:
        if not await services.broker.context.appeared(error):
            raise
    return find()


async def outcome(work: Awaitable[object], codes: Codes | None = None) -> Outcome:
    """Wait for the work on one item."""
    try:
        await work
    except (TalosError, Refused) as error:
        return outcome_of(error, codes)
    return DONE


def repeated(keys: Iterable[T]) -> set[T]:
    """Those that a request names more than once."""
    return {key for key, count in Counter(keys).items() if count > 1}


class Turns:
    """Bounds the items of one request in number and time, and lets others have their turn.

    Args: timeout_ms: the client's, 0 if it has none; what has not begun then is not done.
        cost: of an item, in those of ``KafkaCall.piece``.
    """

    def __init__(self, call: KafkaCall, timeout_ms: int = 0, cost: int = COST) -> None:
        self._call, self._cost, self._loop = call, cost, asyncio.get_running_loop()
        if not 0 < timeout_ms < _DEADLINE_MS_MAX:
            timeout_ms = _DEADLINE_MS_MAX
        self._until_s = self._loop.time() + timeout_ms / 1000
        self._taken = 0

    async def take(self) -> None:
        """Before each item. Raises: Refused: it must not begin."""
        self._taken += 1
        await self._call.piece(self._cost)
        if self._taken > ITEMS_MAX:
            text = f"such a request can have {ITEMS_MAX} items; send several"
            raise Refused(ErrorCode.INVALID_REQUEST, text)
        if self._taken > 1 and self._loop.time() >= self._until_s:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT, "not done: the timeout of the request passed"
            )
