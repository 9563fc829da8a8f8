"""Who may write a folder of this machine: one process at a time, and no run that was replaced.

``writing`` is the lock of a folder. ``fence`` compares the epoch of a writer's lease with the
highest that has written, and notes it; that takes effect because the lock is held meanwhile.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from opentalos.model.errors import ConfigError, OutcomeUnknown, StoreUnavailable
from opentalos.pipelines.lake.durable_files import write_json
from opentalos.pipelines.lease import check_epoch

QUERIES_MAX: Final = 64  # whose epochs a folder keeps; one usually has one writer
_LOCK: Final = ".lock"
_EPOCHS: Final = ".epochs.json"


@contextmanager
def writing(folder: Path, what: str, remedy: str = "repeat the batch") -> Iterator[int]:
    """The lock of a folder's writers; its descriptor.

    Args:   what: is written, for errors; remedy: what a caller does after one.
    Raises: StoreUnavailable: another process has it, or it could not be opened; OutcomeUnknown: for
            an OSError of what is done meanwhile.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"could not write {what}: {error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreUnavailable(
                f"could not write {what}: another process is writing it; {remedy}"
            ) from error
        try:
            yield lock
        except OSError as error:
            raise OutcomeUnknown(f"could not write {what}: {error}; {remedy}") from error
    finally:
        os.close(lock)


def fence(folder: Path, what: str, query: str, epoch: int) -> None:
    """Refuse what a run writes after another one replaced it, and note its epoch if it is newer.

    The lock of ``writing`` is held.

    Args:   query: whose runs replace each other; epoch: of the run's lease; 0: it has none.
    Raises: LeaseNotHeld: not done; ConfigError: the note cannot be read; OSError.
    """
    if not epoch:
        return
    path = folder / _EPOCHS
    try:
        seen = {str(name): int(noted) for name, noted in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        seen = {}
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"could not read the epochs that have written {folder}: {error}; delete {path} once "
            "no other run writes there"
        ) from error
    newest = seen.pop(query, 0)
    check_epoch(what, epoch, newest)
    if newest < epoch:
        others = dict(list(seen.items())[1 - QUERIES_MAX :])
        write_json(path, {**others, query: epoch})
