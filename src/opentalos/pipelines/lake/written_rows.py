"""Whether what Spark's executors write is there for everybody else."""

from collections.abc import Sequence
from typing import Final

from opentalos.model.errors import ConfigError, RequestError
from opentalos.pipelines.lake.file_writer import FileWriter
from opentalos.pipelines.lake.layout import DataFile

_SHARED: Final = "a place that all share, such as delta+hdfs://HOST:PORT/PATH"


class RowsMissing(RequestError):
    """Spark reported success, but rows are not where they were to be written."""


def is_one_machine(master: str) -> bool:
    """Whether driver and executors have the same disks: ``local`` runs them in one process."""
    return master == "local" or master.startswith("local[")


def check_shared(what: str, master: str, *, local: bool, give: str = _SHARED) -> None:
    """Raises: ConfigError: executors would write to disks of their own.

    Args: what: is written, with its place; local: it is on disks of this machine; give: the remedy.
    """
    if local and not is_one_machine(master):
        raise ConfigError(
            f"{what} is a folder of one machine, and the executors of {master} write to their own "
            f"disks; give {give}"
        )


def check_files(what: str, writer: FileWriter, files: Sequence[DataFile]) -> None:
    """Read the footer of each file, as this process sees it.

    Args:   what: did not take the batch if rows are missing.
    Raises: RowsMissing: a file is not there, or has not the rows that its task has written;
            StoreUnavailable.
    """
    stored = writer.stored_rows([file.path for file in files])
    for file, found in zip(files, stored, strict=True):
        if found != file.rows:
            raise RowsMissing(
                f"{what} did not take the batch: {file.path} below {writer.root} has {found} of "
                f"{file.rows} rows; give a URL on which all executors and the driver see the same "
                "files"
            )
