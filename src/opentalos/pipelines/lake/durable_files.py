"""Files of pipelines that are whole and survive a power cut, or are as they were before."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, document: Any) -> None:
    """Put a document in the place of what was there; on return it is durable. Raises: OSError."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises: OSError."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
