"""The first administrator: given on the command line, or created once."""

import logging
import sys

from opentalos.broker.broker import Broker
from opentalos.model.errors import AlreadyExists, OutcomeUnknown
from opentalos.server.data_directory import DataDirectory
from opentalos.server.stores import Stores

RootKey = tuple[str, str] | None  # key id and secret, if they were given
SECRET_CHARS_ADVISED = 20  # a shorter one may be guessed
CLAIM = "cluster/root"  # record of the server that creates the first administrator

_log = logging.getLogger("opentalos.server")


async def ensure_root(
    broker: Broker, directory: DataDirectory, root_key: RootKey, shared: Stores | None
) -> None:
    """Ensure that an administrator exists. Args: shared: the stores of a cluster, else None."""
    if root_key is not None:
        _warn_if_short(root_key[1])
        await broker.principals.ensure_root(*root_key)
    elif not broker.principals.has_root():
        if shared is not None:
            maker = await _claim(shared, broker.context.config.server)
            if maker != broker.context.config.server:
                _print(f"root key: created by server {maker}")
                return
        key_id, secret = directory.root_key()
        _warn_if_short(secret)
        await broker.principals.ensure_root(key_id, secret)
        _print(f"root key: {directory.path / 'root.key'}")


async def _claim(stores: Stores, server: str) -> str:
    """The server that creates the administrator; after a crash the same server continues."""
    try:
        await stores.meta.create(CLAIM, server.encode())
    except (AlreadyExists, OutcomeUnknown):
        found = await stores.meta.get(CLAIM)
        if found is None:
            raise
        return found.value.decode()
    return server


def _warn_if_short(secret: str) -> None:
    if len(secret) < SECRET_CHARS_ADVISED:
        _log.warning(
            "the secret of the root key has %d characters and may be guessed; use at least %d",
            len(secret),
            SECRET_CHARS_ADVISED,
        )


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
