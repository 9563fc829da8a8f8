"""KeyedPuts: idempotency keys of callers; a repeated put gets the answer of the first."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from opentalos.model.errors import (
    OutcomeUnknown,
    RequestError,
    TalosError,
)
from opentalos.model.identity import Principal
from opentalos.model.message import PRODUCER_ID_MAX, ProducerStamp

KEYS_MAX = 20_000  # first answers kept, whole server; about 0.5 KiB each
KEYS_OF_CALLER_MAX = 2_000  # of them, for one caller
WINDOW_S = 600.0  # a first answer is kept so long
_ID_BYTES = 8
_ID_MARK = PRODUCER_ID_MAX + 1  # ids of keys are disjoint from those of producers


class KeyReused(RequestError):
    """The idempotency key was used before with another request."""


class Stored(NamedTuple):
    """Where a put's messages are stored. ``base_offset``: of the first; None: unknown."""

    partition: int
    base_offset: int | None
    messages: int


class PutKey(NamedTuple):
    """A caller's idempotency key; ``fingerprint``: equal for equal requests."""

    key: str
    fingerprint: bytes

    def stamp(self, caller: Principal, resource: str) -> ProducerStamp:
        """The same for the same key, request, caller and topic: the log stores it once."""
        parts = (caller.id.encode(), resource.encode(), self.key.encode(), self.fingerprint)
        return ProducerStamp(_ID_MARK | digest_of(parts) & PRODUCER_ID_MAX, 0, 0)

    def number(self) -> int:
        """Chooses a partition for a request without one; a repeat must choose the same."""
        return digest_of((self.key.encode(),))


def digest_of(parts: Sequence[bytes]) -> int:
    """A number of 64 bits; each part counts with its length."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(_ID_BYTES, "big") + part)
    return int.from_bytes(hashed.digest()[:_ID_BYTES], "big")


class _First(NamedTuple):
    fingerprint: bytes
    answer: asyncio.Future[Stored]
    until_s: float


_Name = tuple[str, str, str]  # caller, topic resource, key


class KeyedPuts:
    """Gives a repeated request the answer of the first one, also while that is in flight.

    A put that was not done or whose outcome is unknown is forgotten: its repeat goes to the log,
    which recognises the stamp. So nothing here must survive a restart, except that a key of
    another request is refused only while it is remembered.
    """

    def __init__(self) -> None:
        self._firsts: OrderedDict[_Name, _First] = OrderedDict()  # oldest first
        self._of_caller: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._firsts)

    async def once(
        self, caller: Principal, resource: str, key: PutKey, put: Callable[[], Awaitable[Stored]]
    ) -> Stored:
        """Run ``put`` unless it ran. Raises: KeyReused; what ``put`` raises or raised."""
        now_s = asyncio.get_running_loop().time()
        self._forget_old(now_s)
        name = (caller.id, resource, key.key)
        first = self._firsts.get(name)
        if first is not None:
            if first.fingerprint != key.fingerprint:
                raise KeyReused(
                    f"idempotency key {key.key!r} was used with another request; use a new key"
                )
            return await asyncio.shield(first.answer)
        if self._of_caller.get(caller.id, 0) >= KEYS_OF_CALLER_MAX:
            self._forget(next(name for name in self._firsts if name[0] == caller.id))
        if len(self._firsts) >= KEYS_MAX:
            self._forget(next(iter(self._firsts)))
        answer: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._firsts[name] = _First(key.fingerprint, answer, now_s + WINDOW_S)
        self._of_caller[caller.id] = self._of_caller.get(caller.id, 0) + 1
        try:
            stored = await put()
        except BaseException as error:
            self._forget_answer(name, answer)
            known = isinstance(error, TalosError)
            answer.set_exception(
                error if known else OutcomeUnknown("the first request was interrupted")
            )
            answer.exception()  # mark it as retrieved: no repeat may wait for it
            raise
        answer.set_result(stored)
        return stored

    def _forget_old(self, now_s: float) -> None:
        while self._firsts:
            name, first = next(iter(self._firsts.items()))
            if first.until_s > now_s:
                return
            self._forget(name)

    def _forget_answer(self, name: _Name, answer: asyncio.Future[Stored]) -> None:
        first = self._firsts.get(name)
        if first is not None and first.answer is answer:
            self._forget(name)

    def _forget(self, name: _Name) -> None:
        del self._firsts[name]
        left = self._of_caller[name[0]] - 1
        if left:
            self._of_caller[name[0]] = left
        else:
            del self._of_caller[name[0]]
