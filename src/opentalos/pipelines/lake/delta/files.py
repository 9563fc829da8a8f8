"""Files below a URL of deltalake, in the driver or in Spark's Python workers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from opentalos.model.errors import StoreUnavailable, TalosError
from opentalos.pipelines.lake.file_writer import FileWriter

_LOCAL: Final = "file://"
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class DeltaFileWriter(FileWriter):
    """Below the table's URL, through the file systems of deltalake."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain secrets

    @property
    def local(self) -> bool:
        return self.root.startswith(_LOCAL)

    def stored_rows(self, paths: Sequence[str]) -> Iterator[int]:
        """See FileWriter."""
        with translated(f"could not read files below {self.root}", StoreUnavailable):
            files = self.file_system()
            for path in paths:
                try:
                    rows = int(pq.read_metadata(path, filesystem=files).num_rows)
                except (FileNotFoundError, pa.ArrowInvalid):
                    rows = 0
                yield rows

    @contextmanager
    def _create(self, path: str) -> Iterator[Any]:
        with self.file_system().open_output_stream(path) as sink:
            yield sink

    def file_system(self) -> Any:
        """A file system of pyarrow whose root is the table's folder."""
        return file_system(self.root, self.options)


def file_system(root: str, options: Mapping[str, str] = _NO_OPTIONS) -> Any:
    """A file system of pyarrow whose root is the folder at a URL."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(root, dict(options)))


@contextmanager
def translated(what: str, otherwise: type[TalosError]) -> Iterator[None]:
    """Errors of deltalake as ours. A conflict is not done: Delta has refused the commit."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError as error:
        raise StoreUnavailable(
            f"{what}: another writer changed it ({_line(error)}); repeat the batch"
        ) from error
    except (DeltaError, OSError) as error:
        raise otherwise(f"{what}: {_line(error)}; repeat the batch") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
