"""KeyFetch: reads an issuer's keys over HTTP, within a time and a size."""

import json
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp

from opentalos.adapters.oidc.settings import OidcSettings, is_trusted
from opentalos.model.errors import ConfigError, StoreUnavailable

DOCUMENT_BYTES_MAX = 256 << 10
_DISCOVERY = "/.well-known/openid-configuration"


class KeyFetch:
    """The issuer's key set (JWKS). Source: OpenID Connect Discovery 1.0, RFC 7517.

    Raises: ConfigError: ``ca_file`` cannot be used.
    """

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._timeout = aiohttp.ClientTimeout(total=settings.fetch_timeout_s)
        try:
            self._trust = ssl.create_default_context(cafile=settings.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"[oidc] ca_file: cannot use {settings.ca_file}: {error}") from error

    async def __call__(self) -> Mapping[str, Any]:
        """The key set. Raises: StoreUnavailable: the issuer did not answer with one."""
        settings = self._settings
        try:
            async with aiohttp.ClientSession(timeout=self._timeout) as session:
                url = settings.jwks_url or await self._discovered(session)
                return await self._document(session, url)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise StoreUnavailable(
                f"could not fetch the keys of {settings.issuer}: {reason}; "
                "check [oidc] and the issuer"
            ) from error

    async def _discovered(self, session: aiohttp.ClientSession) -> str:
        issuer = self._settings.issuer
        document = await self._document(session, issuer.rstrip("/") + _DISCOVERY)
        if document.get("issuer") != issuer:
            raise ValueError("its discovery document names another issuer")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or not is_trusted(url):
            raise ValueError("its discovery document has no https:// jwks_uri")
        return url

    async def _document(self, session: aiohttp.ClientSession, url: str) -> Mapping[str, Any]:
        # A redirect could lead to a URL that is not protected.
        async with session.get(url, allow_redirects=False, ssl=self._trust) as reply:
            if reply.status != 200:
                raise ValueError(f"{url} answered {reply.status}")
            content = bytearray()
            async for part in reply.content.iter_chunked(64 << 10):
                content += part
                if len(content) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"{url} is larger than {DOCUMENT_BYTES_MAX:,} bytes")
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError(f"{url} is not a JSON object")
        return document
