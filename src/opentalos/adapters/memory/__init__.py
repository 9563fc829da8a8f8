"""The three storage ports in memory: correct, deterministic, on one event loop; for tests."""

from opentalos.adapters.memory.file_store import MemoryAppendFile, MemoryFileStore
from opentalos.adapters.memory.meta_store import MemoryMetaStore
from opentalos.adapters.memory.row_store import MemoryRowStore
from opentalos.adapters.memory.storage import MemoryStorage

__all__ = [
    "MemoryAppendFile",
    "MemoryFileStore",
    "MemoryMetaStore",
    "MemoryRowStore",
    "MemoryStorage",
]
