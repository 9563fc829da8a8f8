"""The debug bundle: what a stranger needs to help, without secrets."""

import io
import json
import os
import re
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from opentalos.cli.doctor.finding import Finding

_MODE: Final = 0o600
_SHOWN: Final = "TALOS_"  # variables that are named, without their values
_USER_OF_URL: Final = re.compile(r"//[^/@\s\"']*@")


def write_bundle(
    path: Path, findings: Sequence[Finding], versions: Mapping[str, str], *, config: str,
    status: Mapping[str, Any] | None,
) -> None:  # fmt: skip
    """Write a new gzipped tar file that only this user can read.

    ``config``: TOML whose secrets are already left out. ``status``: of a running server.

    Raises: OSError: the file exists, or cannot be written.
    """
    parts = {
        "findings.json": _json([asdict(finding) for finding in findings]),
        "versions.json": _json(versions),
        "config.toml": config,
        "variables.txt": "\n".join(sorted(name for name in os.environ if name.startswith(_SHOWN))),
        "limits.txt": _read("/proc/self/limits"),
        "mounts.txt": _read("/proc/self/mounts"),
    }
    if status is not None:
        parts["status.json"] = _json(status)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in parts.items():
            content = _USER_OF_URL.sub("//...@", text).encode()
            entry = tarfile.TarInfo(f"talos-doctor/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), _MODE
            bundle.addfile(entry, io.BytesIO(content))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, default=str)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""  # Linux only
