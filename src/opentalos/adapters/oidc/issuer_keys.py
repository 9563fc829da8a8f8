"""IssuerKeys: the issuer's public keys in memory, fetched when tokens need them.

Nothing is fetched without tokens. A token whose key is not known waits for one fetch that all
share; between fetches ``fetch_interval_s`` pass, doubled after each failure, so tokens with made-up
key ids cause no more than that. Old keys are fetched again in the background: one that the issuer
removed ends then. While the issuer does not answer, its keys stay in use for ``keys_age_max_s``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from opentalos.adapters.oidc.settings import OidcSettings
from opentalos.model.errors import StoreUnavailable

KEYS_MAX = 100  # of one issuer; further ones are ignored
FAILURES_COUNTED_MAX = 5  # the pause after failures grows up to 2 ** 5 times
_LOG = logging.getLogger("opentalos.oidc")

Fetch = Callable[[], Awaitable[Mapping[str, Any]]]


class IssuerKeys:
    """``version`` changes with the set of keys. Not safe for threads: one loop uses it."""

    def __init__(self, settings: OidcSettings, fetch: Fetch) -> None:
        self._settings, self._fetch = settings, fetch
        self._keys: dict[str, PyJWK] = {}
        self._fetched_s = float("-inf")  # when the keys were last read
        self._asked_s = float("-inf")  # when a fetch last began
        self._failures = 0  # since the last success
        self._task: asyncio.Task[None] | None = None
        self.version = 0

    def get(self, key_id: str) -> PyJWK | None:
        """The key of that id; the only key, if tokens name none."""
        if self._age_s() > self._settings.keys_age_max_s:
            return None
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    async def ready(self, key_id: str) -> None:
        """Return when ``get`` knows the key, or the issuer has no such key.

        Raises: StoreUnavailable: the key is unknown, and the issuer does not answer.
        """
        if self.get(key_id) is not None:
            if self._age_s() > self._settings.refresh_interval_s:
                self._begin()
            return
        task = self._begin()
        if task is not None:
            await asyncio.shield(task)  # others wait for it as well
        if self._failures and self.get(key_id) is None:
            raise StoreUnavailable("the issuer's keys could not be fetched; retry later")

    def _age_s(self) -> float:
        return asyncio.get_running_loop().time() - self._fetched_s

    def _begin(self) -> asyncio.Task[None] | None:
        """The fetch under way, or a new one; None: the last one was too short ago."""
        if self._task is None:
            pause_s = self._settings.fetch_interval_s * 2**self._failures
            now_s = asyncio.get_running_loop().time()
            if now_s - self._asked_s < pause_s:
                return None
            self._asked_s = now_s
            self._task = asyncio.get_running_loop().create_task(self._run(), name="oidc keys")
        return self._task

    async def _run(self) -> None:
        try:
            found = _keys_of(await self._fetch())
        except StoreUnavailable as error:
            self._failures = min(self._failures + 1, FAILURES_COUNTED_MAX)
            _LOG.warning("%s", error)
            return
        except Exception:
            # A defect must not stop tokens permanently: it counts as a failure of the issuer.
            self._failures = min(self._failures + 1, FAILURES_COUNTED_MAX)
            _LOG.exception("could not read the issuer's keys; retrying at a later token")
            return
        finally:
            self._task = None
        self._failures = 0
        self._fetched_s = asyncio.get_running_loop().time()
        # The cache of verified tokens must not outlive a key that was removed or replaced.
        self._keys, self.version = found, self.version + 1


def _keys_of(document: Mapping[str, Any]) -> dict[str, PyJWK]:
    """Signing keys by id. Raises: StoreUnavailable: it is no key set."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise StoreUnavailable("the issuer's key set has no list of keys; check [oidc] jwks_url")
    found: dict[str, PyJWK] = {}
    for fields in listed[:KEYS_MAX]:
        if not isinstance(fields, dict) or fields.get("use", "sig") != "sig":
            continue
        if fields.get("kty") == "oct":
            continue  # a secret in a public document verifies nothing
        try:
            found[str(fields.get("kid", ""))] = PyJWK(fields)
        except (PyJWTError, ValueError, TypeError, KeyError) as error:
            # Sets may have keys of kinds that are not known here.
            _LOG.info("ignored a key of the issuer: %s", error)
    return found
