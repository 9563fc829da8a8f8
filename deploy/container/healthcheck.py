"""Whether the server of a data directory answers: exit status 0, else 1 and a line that says why.

usage: healthcheck.py DATA

Needs Python alone. The port is that of DATA/server.json, which the server writes when it is ready.
"""

import http.client
import json
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

TIMEOUT_S = 4.0  # less than the check's own


def connection_to(url: str) -> http.client.HTTPConnection:
    """A connection to this machine. The certificate names another host, so it is not verified."""
    found = urlsplit(url)
    port = found.port or 0
    if found.scheme != "https":
        return http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=trust)


def status(url: str) -> int:
    """Of GET /healthz; 200 if a server with TLS hangs up instead, since it wants a certificate.

    It answers then: the handshake has got so far only because it did.

    Raises: OSError, http.client.HTTPException.
    """
    connection, shaken = connection_to(url), False
    try:
        connection.connect()
        shaken = isinstance(connection, http.client.HTTPSConnection)
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (ssl.SSLError, ConnectionError):
        if shaken:
            return 200
        raise
    finally:
        connection.close()


def main() -> int:
    """The exit status."""
    try:
        found = json.loads(Path(sys.argv[1], "server.json").read_text())
        answered = status(found["url"])
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        print(f"not healthy: {error}")
        return 1
    if answered != 200:
        print(f"not healthy: /healthz returned {answered}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
