"""Whether what Spark's executors write is there for everybody else."""

from opentalos.model.errors import RequestError


class RowsMissing(RequestError):
    """Spark reported success, but rows are not where they were to be written."""


def is_one_machine(master: str) -> bool:
    """Whether driver and executors have the same disks: ``local`` runs them in one process."""
    return master == "local" or master.startswith("local[")
