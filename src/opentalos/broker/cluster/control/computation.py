"""Computations of the cluster that take many steps, beside everything else that a server does."""

import asyncio
from typing import TypeVar

from opentalos.placement.steps import Run, Steps

T = TypeVar("T")


async def worked_out(steps: Steps[T]) -> T:
    """The result of the steps, with everybody else's turns in between."""
    run = Run(steps)
    for _ in run:
        await asyncio.sleep(0)
    return run.result
