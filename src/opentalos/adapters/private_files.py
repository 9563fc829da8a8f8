"""Files and directories that only their owner may read, whatever the umask is and was; blocking.

The data of every tenant is in them, so a mode wider than the owner's is corrected where it is
found, not only where a file is made.
"""

import os
import stat
from pathlib import Path
from typing import Final

from opentalos.model.errors import ConfigError

FILE_MODE: Final = 0o600
DIR_MODE: Final = 0o700
_OTHERS: Final = 0o077
_NOT_OF_ROOTS: Final = 0o037  # what group and others never have on a secret of root
_ROOT_USER: Final = 0


def make_private(path: Path) -> bool:
    """Take the rights of group and others from a file or directory; whether there were any.

    An absent path, a link and a device are left alone.

    Raises: ConfigError: it belongs to another user, or is a directory that users share; OSError.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    folder = stat.S_ISDIR(status.st_mode)
    if not folder and not stat.S_ISREG(status.st_mode):
        return False
    user = os.geteuid()
    if user not in (status.st_uid, _ROOT_USER):
        raise ConfigError(
            f"cannot use {path}: it belongs to user {status.st_uid}, who can read and replace what "
            f"is in it, and this server runs as user {user}; change its owner, or name a directory "
            "that does not exist yet"
        )
    if folder and status.st_mode & stat.S_ISVTX:
        raise ConfigError(
            f"cannot use {path}: other users have files in it; name a directory of its own"
        )
    if not status.st_mode & _OTHERS:
        return False
    path.chmod(DIR_MODE if folder else FILE_MODE)
    return True


def create_private(path: Path) -> None:
    """Make an empty file unless the path exists. Raises: OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        os.close(os.open(path, flags | os.O_EXCL, FILE_MODE))
    except FileExistsError:
        return


def private_opener(path: str, flags: int) -> int:
    """An ``opener`` of ``open``: files that it makes are private."""
    return os.open(path, flags, FILE_MODE)


def readable_by_others(mode: int, owner: int, user: int) -> bool:
    """Whether more than this user may read or write a file of a secret.

    One of root may be readable by a group: Kubernetes passes secrets to other users that way.
    """
    return bool(mode & (_NOT_OF_ROOTS if owner == _ROOT_USER != user else _OTHERS))


def read_credential(path: Path) -> str:
    """The text of a file that only its owner may read. Raises: ConfigError."""
    try:
        status = path.stat()
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"cannot read credential file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read credential file {path}: not UTF-8") from error
    if readable_by_others(status.st_mode, status.st_uid, os.geteuid()):
        raise ConfigError(f"other users can read credential file {path}; run chmod 600 on it")
    return text
