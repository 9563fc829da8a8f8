"""Closes nodes to others that were made before the servers had a credential."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import GetACL, GetChildren, SetACL

from opentalos.model.errors import StoreUnavailable

AT_ONCE: Final = 32  # nodes whose requests are under way
PROGRESS_NODES: Final = 10_000  # between two lines of the log
_ANY_VERSION: Final = -1
_log: Final = logging.getLogger(__name__)


class Reader(Protocol):
    """A connection: requests that may be repeated."""

    async def read(self, *requests: Any) -> Any: ...


async def close_open_nodes(connection: Reader, root: str, acl: Iterable[Any]) -> int:
    """Give the ACL to the root and all nodes below that anyone may use; how many there were.

    A node that another user closed stays as it is; the server then finds out when it reads it.
    Memory: the names of one level of the tree, which the records of this server have as well.
    Raises: StoreUnavailable.
    """
    wanted, seen, changed, level = list(acl), 0, 0, [root]
    while level:
        below: list[str] = []
        for start in range(0, len(level), AT_ONCE):
            nodes = level[start : start + AT_ONCE]
            results = await asyncio.gather(
                *(_close(connection, node, wanted, below.extend) for node in nodes)
            )
            changed += sum(results)
            if (seen + len(nodes)) // PROGRESS_NODES > seen // PROGRESS_NODES:
                _log.info("checked the ACLs of %d znodes, closed %d", seen + len(nodes), changed)
            seen += len(nodes)
        level = below
    if changed:
        _log.warning("%d of %d znodes below %s were open to everybody; closed", changed, seen, root)
    return changed


async def _close(
    connection: Reader, node: str, wanted: list[Any], found: Callable[[Iterable[str]], None]
) -> bool:
    try:
        acls, _ = await connection.read(GetACL(node))
        is_open = any(acl.id.scheme == "world" for acl in acls)
        if is_open:
            await connection.read(SetACL(node, wanted, _ANY_VERSION))
        found(f"{node}/{name}" for name in await connection.read(GetChildren(node, None)))
    except NoNodeError:
        return False  # removed meanwhile
    except StoreUnavailable as error:
        if isinstance(error.__cause__, NoAuthError):
            return False
        raise
    return is_open
