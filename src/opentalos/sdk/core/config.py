"""Client configuration: endpoints, key, timeouts, limits and TLS, from code, the environment or a
profile file."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from opentalos.model.errors import ConfigError

URL_VARIABLE: Final = "TALOS_URL"  # one endpoint, or several separated by commas
KEY_VARIABLE: Final = "TALOS_KEY"  # ID:SECRET
# Files in PEM format for https endpoints, by field of TlsSettings.
TLS_VARIABLES: Final = {
    "ca_file": "TALOS_CA",
    "cert_file": "TALOS_CERT",
    "key_file": "TALOS_CERT_KEY",
}
PROFILES_FILE: Final = Path(".config") / "opentalos" / "profiles.toml"  # below the home folder
ENDPOINTS_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How to verify https endpoints, and the certificate of this client."""

    ca_file: str | None = None  # None: the CA certificates of the system
    cert_file: str | None = None  # of this client, if the server requires one
    key_file: str | None = None  # None: the key is in cert_file
    verify_host: bool = True  # False: accept any host name in the certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Configuration of a client; checked on construction.

    The client uses the first of ``endpoints``, and switches to the next one after a failure.

    Raises: ConfigError: a value is out of range; the text names it.
    """

    endpoints: tuple[str, ...]  # "http://host:port" or "https://host:port"
    key_id: str
    secret: str
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 10.0  # one HTTP call; above the 0.5 s a server may hold a get
    deadline_s: float = 60.0  # one operation including retries
    backoff_s: float = 0.1  # longest pause before the first retry; doubles, with full jitter
    backoff_s_max: float = 5.0
    direct: bool = True  # send puts and gets to the server of the partition (getScheduleInfo)
    connections_max: int = 64  # pooled, over all servers
    reply_bytes_max: int = 64 << 20  # of one reply; larger ones raise NoReply
    tls: TlsSettings | None = None  # for https endpoints; None: the defaults
    threaded: bool = False  # a thread per request in flight: half the cost of replies of megabytes
    acting_for: str = ""  # principal that an administrator acts for; empty: its own calls

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoints", tuple(url.rstrip("/") for url in self.endpoints))
        if not 0 < len(self.endpoints) <= ENDPOINTS_MAX:
            raise ConfigError(
                f"endpoints must have 1 to {ENDPOINTS_MAX} entries, not {len(self.endpoints)}"
            )
        for url in self.endpoints:
            _check_endpoint(url)
        if len({urlsplit(url).scheme for url in self.endpoints}) > 1:
            raise ConfigError("endpoints must be either all http or all https")
        if not self.key_id or not self.secret:
            raise ConfigError("key_id and secret must not be empty")
        if not (self.acting_for.isascii() and self.acting_for.isprintable()):
            raise ConfigError("acting_for must be the id of a principal")
        times_s = (self.connect_timeout_s, self.request_timeout_s, self.deadline_s, self.backoff_s)
        if min(times_s) <= 0 or self.backoff_s > self.backoff_s_max:
            raise ConfigError(
                "timeouts must be greater than 0, and backoff_s at most backoff_s_max"
            )
        if self.connections_max < 1 or self.reply_bytes_max < 1:
            raise ConfigError("connections_max and reply_bytes_max must be greater than 0")

    @property
    def secure(self) -> bool:
        """Whether the endpoints are https."""
        return self.endpoints[0].startswith("https:")

    def __repr__(self) -> str:
        """Without the secret, since configurations end up in logs."""
        return f"ClientConfig(endpoints={self.endpoints!r}, key_id={self.key_id!r})"

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **settings: Any
    ) -> "ClientConfig":
        """From the variables TALOS_URL and TALOS_KEY; ``settings`` are further fields.

        TALOS_CA, TALOS_CERT and TALOS_CERT_KEY name the files of ``TlsSettings``.

        Args:    environment: None: that of this process.
        Raises:  ConfigError: a variable is missing or invalid.
        """
        known = os.environ if environment is None else environment
        urls, key = known.get(URL_VARIABLE, ""), known.get(KEY_VARIABLE, "")
        if not urls or not key:
            raise ConfigError(
                f"no endpoint or key: set {URL_VARIABLE} (http://host:port) and {KEY_VARIABLE} "
                "(ID:SECRET)"
            )
        key_id, secret = split_key(key, KEY_VARIABLE)
        files: dict[str, Any] = {
            field: known[name] for field, name in TLS_VARIABLES.items() if known.get(name)
        }
        if files:
            settings.setdefault("tls", TlsSettings(**files))
        return cls(endpoints=split_urls(urls), key_id=key_id, secret=secret, **settings)

    @classmethod
    def from_profile(
        cls, name: str | None = None, *, path: Path | None = None, **settings: Any
    ) -> "ClientConfig":
        """From a profile in the file ``~/.config/opentalos/profiles.toml``.

        Shape:   default = "NAME"; [profiles.NAME] endpoints = [URL, ...], key = "ID:SECRET" or
                 key_file = PATH, further fields of this class; [profiles.NAME.tls] TlsSettings.
        Args:    name: None: the default profile; path: of another file; settings: override fields.
        Raises:  ConfigError: no such file or profile, or an unknown or invalid key.
        """
        file = Path.home() / PROFILES_FILE if path is None else path
        try:
            text = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"there is no profile file {file}") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"cannot use the profile file {file}: {error}") from error
        wanted = name or text.get("default")
        found = text.get("profiles", {}).get(wanted) if isinstance(wanted, str) else None
        if not isinstance(found, dict):
            raise ConfigError(
                f"{file} has no profile {wanted!r}" if wanted else f"{file}: no default"
            )
        return replace(_from_table(dict(found), f"{file}, profile {wanted}"), **settings)


def split_key(text: str, where: str) -> tuple[str, str]:
    """Split ``ID:SECRET`` into key id and secret. Raises: ConfigError."""
    key_id, colon, secret = text.strip().partition(":")
    if not (key_id and colon and secret):
        raise ConfigError(f"{where} must have the form ID:SECRET")
    return key_id, secret


def key_in_file(path: Path, remedy: str = "") -> tuple[str, str]:
    """Key id and secret in a file with ``ID:SECRET``. Raises: ConfigError, with the remedy."""
    try:
        text = path.expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ConfigError(f"cannot read key file {path}: {reason}{remedy}") from error
    return split_key(text, str(path))


def split_urls(text: str) -> tuple[str, ...]:
    """Split endpoints separated by commas."""
    return tuple(url.strip() for url in text.split(",") if url.strip())


def _check_endpoint(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.path or parts.query or parts.fragment or parts.username:
        raise ConfigError(f"endpoint {url!r} must have the form http://host:port")


def _from_table(table: dict[str, Any], where: str) -> ClientConfig:
    try:
        key = table.pop("key", None)
        if key is None:
            key = Path(table.pop("key_file")).expanduser().read_text(encoding="utf-8")
        key_id, secret = split_key(key, f"the key of {where}")
        tls = table.pop("tls", None)
        endpoints = table.pop("endpoints")
        unknown = table.keys() - {field.name for field in fields(ClientConfig)}
        if unknown:
            raise ConfigError(f"{where}: unknown key {min(unknown)!r}")
        return ClientConfig(
            endpoints=split_urls(endpoints) if isinstance(endpoints, str) else tuple(endpoints),
            key_id=key_id,
            secret=secret,
            tls=None if tls is None else TlsSettings(**tls),
            **table,
        )
    except KeyError as error:
        raise ConfigError(f"{where}: {error.args[0]} is missing") from None
    except (OSError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where}: {error}") from error
