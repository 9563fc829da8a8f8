"""Small files that are replaced atomically and durably: after a power loss, the old or the new."""

import json
import os
from pathlib import Path
from typing import Any

from opentalos.adapters.durable_files import sync_descriptor


def write_json(path: Path, document: Any) -> None:
    """Replace a document; on return it is durable. Raises: OSError."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w") as file:
        json.dump(document, file)
        file.flush()
        sync_descriptor(file.fileno())
    os.replace(fresh, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable. Raises: OSError."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_descriptor(number)
    finally:
        os.close(number)
