"""REST calls to a running server, for commands and pipelines; not part of the public SDK."""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from opentalos.model import errors
from opentalos.model.checks import json_text, without_body
from opentalos.model.errors import (
    ERRORS_BY_NAME,
    OutcomeUnknown,
    RequestError,
    TalosError,
    Unavailable,
)
from opentalos.sdk.tls_reason import CERTIFICATE_WANTED, speaks_tls, tls_reason

if TYPE_CHECKING:
    from opentalos.sdk.core.config import ClientConfig

TIMEOUT_S: Final = 30.0  # of one call; above the server's own limit of 20 s
_REPLY_BYTES_MAX: Final = 64 << 20
_TLS_ON_HTTP: Final = "the port of {} speaks TLS: use https://"
_JSON: Final = {"Content-Type": "application/json"}


class RestClient:
    """Calls the first reachable server of a configuration."""

    def __init__(self, config: "ClientConfig", timeout_s: float = TIMEOUT_S) -> None:
        self._config, self._timeout_s = config, timeout_s
        pair = f"{config.key_id}:{config.secret}"
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def __call__(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        query: Mapping[str, object] | None = None,
    ) -> Any:
        """The document of the reply, None if it has none.

        Raises: the error of the server; ConnectFailed: not done; OutcomeUnknown: no complete reply.
        """
        target = f"/rest/v1/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        body = None if document is None else json_text(document).encode("utf-8", "surrogatepass")
        status, text = self._exchange(method, target, body)
        if status >= http.client.BAD_REQUEST:
            raise _error_of(status, text)
        return json.loads(text) if text else None

    def reach(self) -> None:
        """Check that a server accepts connections and, of an http endpoint, that it speaks HTTP.

        Raises: ConnectFailed, without retries.
        """
        from opentalos.sdk.errors import ConnectFailed

        connection, url = self._connected()
        try:
            if url.startswith("http:"):
                connection.request("GET", "/healthz")
                connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            if speaks_tls(url):
                raise ConnectFailed(_TLS_ON_HTTP.format(url)) from error
        finally:
            connection.close()

    def _exchange(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        from opentalos.sdk.errors import ConnectFailed

        headers = {"Authorization": self._authorization, **(_JSON if body is not None else {})}
        connection, url = self._connected()
        try:
            connection.request(method, target, body, headers)
            reply = connection.getresponse()
            text = reply.read(_REPLY_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            if url.startswith("http:") and speaks_tls(url):
                raise ConnectFailed(_TLS_ON_HTTP.format(url)) from error
            shown = f"no reply from {url}: {_reason(error)}"
            # The alert of TLS 1.3 that says so is often lost in the end of the connection.
            shown_cert = self._config.tls is not None and self._config.tls.cert_file is not None
            if url.startswith("https:") and isinstance(error, ConnectionError) and not shown_cert:
                shown += f"; perhaps {CERTIFICATE_WANTED}"
            raise (Unavailable if method == "GET" else OutcomeUnknown)(shown) from error
        finally:
            connection.close()
        if len(text) > _REPLY_BYTES_MAX:
            raise RequestError(f"the reply is larger than {_REPLY_BYTES_MAX} bytes")
        return reply.status, text

    def _connected(self) -> tuple[http.client.HTTPConnection, str]:
        """A connection to the first endpoint that accepts one."""
        from opentalos.sdk.errors import ConnectFailed

        failures = []
        until_s = time.monotonic() + self._timeout_s
        for url in self._config.endpoints:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                break
            connection = self._connection(url, min(left_s, self._config.connect_timeout_s))
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                failures.append(f"cannot reach {url}: {_reason(error)}")
            else:
                if connection.sock is not None:
                    connection.sock.settimeout(self._timeout_s)
                return connection, url
        raise ConnectFailed("; ".join(failures))

    def _connection(self, url: str, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        return http.client.HTTPSConnection(
            parts.netloc, timeout=timeout_s, context=self._tls_context()
        )

    def _tls_context(self) -> ssl.SSLContext:
        from opentalos.sdk.core.config import TlsSettings

        tls = self._config.tls or TlsSettings()
        try:
            context = ssl.create_default_context(cafile=tls.ca_file)
            context.check_hostname = tls.verify_host
            if tls.cert_file is not None:
                context.load_cert_chain(tls.cert_file, tls.key_file)
        except (OSError, ssl.SSLError) as error:
            raise errors.ConfigError(f"cannot use the TLS settings {tls}: {error}") from error
        return context


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return tls_reason(error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _error_of(status: int, text: bytes) -> TalosError:
    """The error named by a problem document (RFC 9457); by its branch if the name is unknown."""
    try:
        return error_of(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        shown = text.decode("utf-8", "replace").strip()
        kind = RequestError if status < http.client.INTERNAL_SERVER_ERROR else OutcomeUnknown
        return kind(f"the server replied with status {status}: {shown or 'no reason given'}")


def error_of(problem: Mapping[str, Any]) -> TalosError:
    """The error in a problem document. Raises: KeyError, TypeError: not a problem document."""
    detail, title = without_body(str(problem["detail"])), str(problem["title"])
    outcome, retry_safe = problem.get("outcome"), problem.get("retry_safe")
    named = ERRORS_BY_NAME.get(title)
    if named is not None:
        return named(detail)
    if outcome == "unknown":
        return OutcomeUnknown(detail)
    return (Unavailable if retry_safe else RequestError)(detail)
