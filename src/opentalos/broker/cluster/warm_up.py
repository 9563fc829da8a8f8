"""Warm-up: a process makes its first file slowly, so that file is nobody's partition.

The HDFS client loads and connects what it needs at the first write: 0.8 to 2.8 s on a busy machine,
where later files take 0.1 s. A server that takes its lent partitions back writes a file before.
"""

import asyncio
import logging

from opentalos.model.errors import TalosError
from opentalos.model.message import Durability
from opentalos.ports.file_store import FileStore

_log = logging.getLogger("opentalos.cluster")

FOLDER = "warm"  # of the FileStore; a file by server
WARM_UP_S = 5.0  # then partitions come back all the same
_CONTENT = b"nothing of value; see broker/cluster/warm_up.py\n"


async def warm_up(files: FileStore, server: str) -> None:
    """Make, commit, close and delete a small file; never raises."""
    path = f"{FOLDER}/{server}"
    try:
        async with asyncio.timeout(WARM_UP_S):
            await files.delete(path)  # a crash may have left it
            file = await files.create(path, durability=Durability.SYNCED)
            await file.commit([_CONTENT])
            await file.close()
            await files.delete(path)
    except (TalosError, TimeoutError) as error:
        _log.info("the first file could not be made ahead: %r", error)
