"""Whether a process that a test did not start itself still runs."""

import psutil


def runs(process: psutil.Process) -> bool:
    """Whether it is there, and no zombie whose parent has not asked for it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
