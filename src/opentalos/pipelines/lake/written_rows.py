"""Whether what Spark's executors write is there for everybody else."""

from opentalos.model.errors import ConfigError, RequestError


class RowsMissing(RequestError):
    """Spark reported success, but rows are not where they were to be written."""


def is_one_machine(master: str) -> bool:
    """Whether driver and executors have the same disks: ``local`` runs them in one process."""
    return master == "local" or master.startswith("local[")


def check_shared(what: str, master: str, *, local: bool) -> None:
    """Raises: ConfigError: executors would write to disks of their own.

    Args: what: is written, with its place; local: it is on disks of this machine.
    """
    if local and not is_one_machine(master):
        raise ConfigError(
            f"{what} is a folder of one machine, and the executors of {master} write to their own "
            "disks; give a place that all share, such as delta+hdfs://HOST:PORT/PATH"
        )
