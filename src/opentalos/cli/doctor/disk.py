"""Checks of the disk of a data directory: space, kind of file system, speed of syncs."""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from opentalos.cli.doctor.finding import Finding

_MIB: Final = 1 << 20
_FREE_MIN: Final = 1 << 30
_FREE_SHARE_MIN: Final = 0.1
_SYNCS: Final = 20
_SYNC_BYTES: Final = 4_096
_SLOW_MS: Final = 20.0  # a disk with spinning plates takes about 10
_NO_SYNC_MS: Final = 0.01  # no disk is that fast
_VOLATILE: Final = {"tmpfs", "ramfs"}
_REMOTE: Final = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs"}


def check_disk(data: Path) -> list[Finding]:
    """The disk of a data directory, which need not exist yet; writes only temporary files."""
    folder = _existing(data.absolute())
    return [_space(folder), _kind(folder), _sync_speed(folder)]


def _existing(path: Path) -> Path:
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def _space(folder: Path) -> Finding:
    usage = psutil.disk_usage(str(folder))
    text = f"{usage.free // _MIB} MiB free of {usage.total // _MIB} at {folder}"
    if usage.free < _FREE_MIN:
        return Finding("space", "problem", text, "free some space, or choose another --data")
    if usage.free < usage.total * _FREE_SHARE_MIN:
        return Finding("space", "warning", text, "less than a tenth is free")
    return Finding("space", "ok", text)


def _kind(folder: Path) -> Finding:
    mounts = psutil.disk_partitions(all=True)
    above = [part for part in mounts if folder.resolve().is_relative_to(part.mountpoint)]
    if not above:
        return Finding("disk", "warning", f"the file system of {folder} is unknown", "see mount")
    kind = max(above, key=lambda part: len(part.mountpoint)).fstype
    text = f"file system {kind} at {folder}"
    if kind in _VOLATILE:
        return Finding(
            "disk", "problem", text, "it is memory, lost at a restart: choose another --data"
        )
    if kind in _REMOTE:
        return Finding(
            "disk", "warning", text, "syncs and locks depend on another machine; prefer a local one"
        )
    if kind == "overlay":
        return Finding(
            "disk", "warning", text, "it goes with its container: mount a volume for --data"
        )
    return Finding("disk", "ok", text)


def _sync_speed(folder: Path) -> Finding:
    try:
        median_ms = _median_sync_ms(folder)
    except OSError as error:
        return Finding(
            "sync", "problem", f"cannot write to {folder}: {error.strerror}",
            "run as another user, or choose another --data",
        )  # fmt: skip
    text = f"a sync of {_SYNC_BYTES} bytes takes {median_ms:.2f} ms (median of {_SYNCS})"
    if median_ms > _SLOW_MS:
        return Finding("sync", "warning", text, "each acknowledged put waits for one; see the load")
    if median_ms < _NO_SYNC_MS:
        return Finding("sync", "warning", text, "no disk is that fast: does it sync at all?")
    return Finding("sync", "ok", text)


def _median_sync_ms(folder: Path) -> float:
    spent = []
    with tempfile.TemporaryFile(dir=folder, prefix=".talos-doctor-") as file:
        for _ in range(_SYNCS):
            begun = time.perf_counter()
            os.write(file.fileno(), b"\0" * _SYNC_BYTES)
            os.fsync(file.fileno())
            spent.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(spent)
