"""FileStore: append-only files with one writer each (local disk, HDFS)."""

from collections.abc import Sequence
from typing import Protocol

from opentalos.model.message import Durability


class AppendFile(Protocol):
    """A file with one writer. After any error it is dead: every later call raises.

    ``commit`` writes and syncs in one hop, in order; the first one survives a power loss whatever
    the durability. ``durability``: of this commit, instead of the file's; a synced one makes all
    before it survive as well, whatever they were. ``close`` makes the file immutable. Both return
    the length. At most one call may be under way. Unknown: OutcomeUnknown, Fenced, WriterDead.
    StorageFull from ``commit`` is unknown as well: bytes may lie in the file. ``thin``: a new file
    would get more replicas than this one has by now; asked before each commit, and true for a
    short while only.
    """

    @property
    def thin(self) -> bool: ...

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int: ...
    async def close(self) -> int: ...


class FileStore(Protocol):
    """Append-only files: no rename, no truncate, no append to an existing file.

    Paths are relative, ``/``-separated, of ``[a-zA-Z0-9._-]`` parts; parents are made on demand.
    ``create`` is exclusive (AlreadyExists), its entry durable. ``recover`` is idempotent, by
    anyone: on return no former commit can succeed, the file never changes again, the length
    covers every successful commit; RecoveryStuck: not done; NotFound. ``read`` sees every commit
    that returned before, returns fewer bytes only at the end; NotFound. ``list`` returns full
    paths of files under the prefix folder, sorted. ``delete`` fences first; an absent file is no
    error. ``space`` is free bytes. Not done: Unavailable, RequestError; unknown: OutcomeUnknown.
    """

    async def create(self, path: str, *, durability: Durability) -> AppendFile: ...
    async def recover(self, path: str, *, deadline_s: float) -> int: ...
    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes: ...
    async def list(self, prefix: str) -> Sequence[str]: ...
    async def delete(self, path: str) -> None: ...
    async def space(self) -> int: ...
    async def close(self) -> None: ...
