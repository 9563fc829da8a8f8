"""Reads a JSON file that a command of ours has written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from opentalos.model.checks import json_value
from opentalos.model.errors import BadRequest, ConfigError

T = TypeVar("T")


def read_document(path: Path, what: str, bytes_max: int, parse: Callable[[Any], T]) -> T:
    """The parsed content of a file.

    Args:    what: the file's kind, for the error; parse: may raise as a lookup does.
    Raises:  ConfigError: it cannot be read, is too large, or is no such file.
    """
    try:
        with path.open("rb") as file:
            text = file.read(bytes_max + 1)
        if len(text) > bytes_max:
            raise BadRequest(f"larger than {bytes_max} bytes")
        return parse(json_value(text))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, BadRequest) as error:
        raise ConfigError(f"{path} is not {what}: {error}") from error
