"""The address, key and TLS settings of the server that a command talks to.

The order is: options, environment, profile, data directory of this machine.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from opentalos.sdk.core.config import ClientConfig
    from opentalos.sdk.rest_client import RestClient

PROFILE_VARIABLE: Final = "TALOS_PROFILE"
DATA_DEFAULT: Final = Path("talos-data")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The connection options of a command; ``config`` fills in what they leave out."""

    data: Path | None = None
    url: str | None = None
    key: str | None = None
    profile: str | None = None
    ca: str | None = None
    cert: str | None = None  # of this client
    cert_key: str | None = None  # None: the key is in ``cert``
    key_file: Path | None = None

    def config(self, **settings: Any) -> "ClientConfig":
        """The effective client configuration; ``settings`` are further fields of it.

        Raises: ConfigError: a setting is missing or invalid.
        """
        from opentalos.sdk.core.config import TLS_VARIABLES, TlsSettings, split_urls

        given: dict[str, Any] = dict(settings)
        if self.url is not None:
            given["endpoints"] = split_urls(self.url)
        if (key := self._given_key()) is not None:
            given["key_id"], given["secret"] = key
        found = self._resolve(given)
        known = found.tls or TlsSettings()
        # A profile's own files count before the variables, options before both.
        chosen: dict[str, Any] = {
            field: option or getattr(known, field) or os.environ.get(TLS_VARIABLES[field]) or None
            for field, option in self._tls_options().items()
        }
        if chosen["key_file"] and not chosen["cert_file"]:
            raise ConfigError("--cert-key (TALOS_CERT_KEY) needs --cert (TALOS_CERT)")
        return replace(found, tls=replace(known, **chosen)) if any(chosen.values()) else found

    @property
    def asks_for_tls(self) -> bool:
        """Whether an option makes sense for https only."""
        return any(self._tls_options().values())

    def _tls_options(self) -> dict[str, str | None]:
        return {"ca_file": self.ca, "cert_file": self.cert, "key_file": self.cert_key}

    def rest(self, timeout_s: float | None = None) -> "RestClient":
        """A client of the server's REST API."""
        from opentalos.sdk.rest_client import TIMEOUT_S, RestClient

        return RestClient(self.config(), TIMEOUT_S if timeout_s is None else timeout_s)

    def _given_key(self) -> tuple[str, str] | None:
        from opentalos.sdk.core.config import key_in_file, split_key

        if self.key_file is not None:
            if self.key is not None:
                raise ConfigError("--as and --key-file both give a key; pass one of them")
            return key_in_file(self.key_file)
        return None if self.key is None else split_key(self.key, "--as")

    def _resolve(self, given: Mapping[str, Any]) -> "ClientConfig":
        from opentalos.sdk.core.config import KEY_VARIABLE, URL_VARIABLE, ClientConfig

        if self.profile is not None:
            return ClientConfig.from_profile(self.profile, **given)
        if self.data is not None:
            return _from_data_directory(self.data, given)
        if {"endpoints", "key_id"} <= given.keys():
            return ClientConfig(**given)
        # A key from the environment or a profile is sent only to an address from the same source,
        # or to one that an option names: TALOS_URL without TALOS_KEY is an error, not a lookup.
        known = dict(os.environ)
        if "key_id" in given:
            known[KEY_VARIABLE] = f"{given['key_id']}:{given['secret']}"
        if self.url is not None and known.get(KEY_VARIABLE):
            known[URL_VARIABLE] = self.url
        if known.get(URL_VARIABLE) and self.url in (None, known[URL_VARIABLE]):
            return replace(ClientConfig.from_environment(known), **given)
        name = known.get(PROFILE_VARIABLE)
        if name or _has_default_profile():
            return ClientConfig.from_profile(name, **given)
        return _from_data_directory(DATA_DEFAULT, given)


def _from_data_directory(data: Path, given: Mapping[str, Any]) -> "ClientConfig":
    """The server of a data directory, with the key of the first administrator."""
    from opentalos.sdk.core.config import ClientConfig, key_in_file

    found = dict(given)
    if "endpoints" not in found:
        found["endpoints"] = (_url_in(data),)
    if "key_id" not in found:
        # In a cluster, only the server that created the first administrator has this file.
        remedy = "; pass --as ID:SECRET"
        found["key_id"], found["secret"] = key_in_file(data / "root.key", remedy)
    return ClientConfig(**found)


def _url_in(data: Path) -> str:
    path = data / "server.json"
    try:
        return str(json.loads(path.read_text())["url"])
    except FileNotFoundError as error:
        raise ConfigError(
            f"no server is running on {data}: {path} does not exist; start one with talos serve, "
            "or pass --url and --as"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _has_default_profile() -> bool:
    import tomllib

    from opentalos.sdk.core.config import PROFILES_FILE

    try:
        text = (Path.home() / PROFILES_FILE).read_text("utf-8")
        return "default" in tomllib.loads(text)
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return True  # ClientConfig.from_profile reports the reason
