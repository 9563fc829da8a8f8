"""Waiting for an append as a coroutine does, for puts that are not on the hot path."""

import asyncio

from opentalos.log.results import AppendWaiter
from opentalos.model.errors import TalosError


def waiter_of(durable: asyncio.Future[int]) -> AppendWaiter:
    """A waiter that resolves the future with the base offset or the error."""

    def settle(base_offset: int, error: TalosError | None) -> None:
        if durable.done():
            return  # the call was cancelled meanwhile
        if error is None:
            durable.set_result(base_offset)
        else:
            durable.set_exception(error)

    return settle
