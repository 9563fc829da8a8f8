"""FileStore on the local disk."""

from opentalos.adapters.local.append_file import LocalAppendFile
from opentalos.adapters.local.faults import LocalFaults
from opentalos.adapters.local.file_store import LocalFileStore, open_local_file_store

__all__ = ["LocalAppendFile", "LocalFaults", "LocalFileStore", "open_local_file_store"]
