"""KeyUseUpkeep: background task that writes down when keys were last used."""

import asyncio
import logging

from opentalos.catalog.principals.key_uses import KeyUses
from opentalos.model.errors import TalosError

_LOG = logging.getLogger("opentalos.principals")


class KeyUseUpkeep:
    """One loop per server. A pass that fails leaves the rest to the next one."""

    def __init__(self, uses: KeyUses, interval_s: float) -> None:
        self._uses, self._interval_s = uses, interval_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop."""
        self._task = asyncio.create_task(self._run(), name="key uses")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._uses.write()
            except TalosError as error:
                _LOG.warning("could not write the last uses of keys: %s; retrying later", error)
            except Exception:
                # Without this loop nobody would see which keys are unused.
                _LOG.exception("could not write the last uses of keys; retrying later")
