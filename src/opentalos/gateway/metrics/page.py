"""The page /metrics for Prometheus: access control and caching.

The first request imports what makes the page, 50 modules with those of Prometheus' client, which
takes some 25 ms and 2.3 MB: most servers on a desk and in tests are never asked for it.
"""

import time
from collections.abc import Callable

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import RETRY_AFTER, head
from opentalos.gateway.metrics.sources import Sources
from opentalos.gateway.rest.routing.credentials import challenge_of
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import AttemptsExceeded, InvalidCredential, PermissionDenied
from opentalos.model.limits import MetricsSettings

FRESH_S = 1.0  # a page is served from the cache for this time
_NO_STORE = b"Cache-Control: no-store\r\n"
_OK = head(200, b"text/plain; version=0.0.4; charset=utf-8")


class MetricsPage:
    """Answers /metrics. By default an administrator's key is required, because clients reach the
    same port and tenants must not see each other's traffic (promise I8)."""

    def __init__(
        self, settings: MetricsSettings, sources: Sources, authenticator: Authenticator
    ) -> None:
        self._open = settings.access == "open"
        self._broker, self._authenticator = sources.broker, authenticator
        self._settings, self._sources = settings, sources
        self._render: Callable[[], bytes] | None = None  # None: not asked yet
        self._made_s = float("-inf")
        self._page = b""

    def serve(self, exchange: Exchange) -> None:
        """Handler of the path."""
        if exchange.method not in (b"GET", b"HEAD"):
            exchange.reply_text(405, "send GET", b"Allow: GET, HEAD\r\n")
            return
        try:
            self._check(exchange)
        except InvalidCredential as error:
            exchange.reply_text(401, str(error), challenge_of(exchange.headers))
        except AttemptsExceeded as error:
            exchange.reply_text(429, str(error), RETRY_AFTER)
        except PermissionDenied as error:
            exchange.reply_text(403, str(error))
        else:
            exchange.reply(_OK, self._current(), _NO_STORE)

    def _check(self, exchange: Exchange) -> None:
        if self._open:
            return
        caller = self._authenticator.by_certificate(exchange)
        if caller is None:
            caller, _ = self._authenticator.by_header(exchange)
        self._broker.context.authorizer.authorize_admin(caller, "read metrics", "metrics")

    def _current(self) -> bytes:
        now_s = time.monotonic()
        if now_s - self._made_s >= FRESH_S:
            if self._render is None:
                self._render = self._imported()
            self._page, self._made_s = self._render(), now_s
        return self._page

    def _imported(self) -> Callable[[], bytes]:
        from opentalos.gateway.metrics.text_page import text_page_of

        return text_page_of(self._sources, self._settings)
