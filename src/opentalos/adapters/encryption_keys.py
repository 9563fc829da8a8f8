"""Reads the server keys of [encryption]: from private files, or from a command such as of a KMS."""

import base64
import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from opentalos.adapters.private_files import read_credential
from opentalos.adapters.secret_box import KEY_BYTES
from opentalos.model.errors import ConfigError
from opentalos.model.settings.security import EncryptionSettings

OUTPUT_BYTES_MAX: Final = 4_096  # of the command; a key has 44 characters


def read_encryption_keys(settings: EncryptionSettings) -> Mapping[str, bytes]:
    """Keys by where they are from, the one that wraps first. Blocks while the command runs.

    Raises: ConfigError, without any key in its text.
    """
    keys: dict[str, bytes] = {}
    if settings.key_file:
        keys["key_file"] = _decoded(read_credential(Path(settings.key_file)), settings.key_file)
    elif settings.key_command:
        text = _printed(settings.key_command, settings.key_command_timeout_s)
        keys["key_command"] = _decoded(text, "the output of [encryption] key_command")
    if settings.other_key_file:
        path = settings.other_key_file
        other = _decoded(read_credential(Path(path)), path)
        if other not in keys.values():
            keys["other_key_file"] = other
    return keys


def _decoded(text: str, source: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        raise ConfigError(f"cannot use the key in {source}: it is not base64") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"cannot use the key in {source}: it has {len(key)} bytes, need {KEY_BYTES}; make one "
            "with: openssl rand -base64 32"
        )
    return key


def _printed(command: str, timeout_s: float) -> str:
    """What the command prints; it is started without a shell."""
    what = "[encryption] key_command"
    try:
        words = shlex.split(command)
        process = subprocess.Popen(  # its messages go where the server's go
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"cannot run {what}: {error}") from error
    with process:
        try:
            output = _output(process, time.monotonic() + timeout_s)
        except TimeoutError as error:
            raise ConfigError(f"{what} did not end within {timeout_s:g} s") from error
        finally:
            if process.poll() is None:
                process.kill()
    if len(output) > OUTPUT_BYTES_MAX:
        raise ConfigError(f"{what} printed more than {OUTPUT_BYTES_MAX} bytes")
    if process.returncode:
        raise ConfigError(f"{what} failed with status {process.returncode}; see its messages above")
    return output.decode("ascii", "replace")


def _output(process: "subprocess.Popen[bytes]", deadline_s: float) -> bytes:
    """All of it, or a little more than is allowed. Raises: TimeoutError."""
    assert process.stdout is not None
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(output) <= OUTPUT_BYTES_MAX:
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                raise TimeoutError
            part = os.read(process.stdout.fileno(), OUTPUT_BYTES_MAX + 1)
            if not part:
                break
            output += part
    if len(output) <= OUTPUT_BYTES_MAX:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
    return output
