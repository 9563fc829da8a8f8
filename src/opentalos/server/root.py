"""The first administrator: from the command line, or made once."""

import sys

from opentalos.broker.broker import Broker
from opentalos.model.errors import AlreadyExists, OutcomeUnknown
from opentalos.server.data_directory import DataDirectory
from opentalos.server.stores import Stores

RootKey = tuple[str, str] | None  # key id and secret, if they were given
CLAIM = "cluster/root"  # the server that makes the first administrator


async def ensure_root(
    broker: Broker, directory: DataDirectory, root_key: RootKey, shared: Stores | None
) -> None:
    """See that there is an administrator. Args: shared: the stores, if others start over them."""
    if root_key is not None:
        await broker.principals.ensure_root(*root_key)
    elif not broker.principals.has_root():
        if shared is not None:
            maker = await _claim(shared, broker.context.config.server)
            if maker != broker.context.config.server:
                _tell(f"root key: made by server {maker}")
                return
        await broker.principals.ensure_root(*directory.root_key())
        _tell(f"root key: {directory.path / 'root.key'}")


async def _claim(stores: Stores, server: str) -> str:
    """The one server that makes the administrator; it goes on after a crash, nobody else."""
    try:
        await stores.meta.create(CLAIM, server.encode())
    except (AlreadyExists, OutcomeUnknown):
        found = await stores.meta.get(CLAIM)
        if found is None:
            raise
        return found.value.decode()
    return server


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
