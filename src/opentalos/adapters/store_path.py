"""The path rules of FileStore and MetaStore, once for all adapters."""

import re

from opentalos.model.checks import shown_value
from opentalos.model.errors import BadRequest, RequestTooLarge
from opentalos.ports.meta_store import VALUE_BYTES_MAX

FENCE_SUFFIX = ".fenced"  # an adapter may keep a marker file of this suffix beside a file
FILE_PATH_CHARS_MAX = 1024
FILE_PART_CHARS_MAX = 200  # file systems allow 255; leaves room for the suffix
META_PATH_CHARS_MAX = 1024
_FILE_PART = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_META_PART = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+")  # ZooKeeper's rule


def check_file_path(path: str) -> str:
    """Return ``path`` if a FileStore may hold a file of that name. Raises: BadRequest."""
    parts = path.split("/")
    if len(path) > FILE_PATH_CHARS_MAX or not all(map(_FILE_PART.fullmatch, parts)):
        raise BadRequest(f"invalid file path {shown_value(path)}")
    if "." in parts or ".." in parts or path.endswith(FENCE_SUFFIX):
        raise BadRequest(f"reserved name in file path {shown_value(path)}")
    return path


def check_file_prefix(prefix: str) -> str:
    """Return ``prefix`` without a final ``/``; empty means everything. Raises: BadRequest."""
    prefix = prefix.rstrip("/")
    return check_file_path(prefix) if prefix else ""


def check_meta_path(path: str) -> str:
    """Return ``path`` if a MetaStore may hold a record of that name. Raises: BadRequest."""
    parts = path.split("/")
    if len(path) > META_PATH_CHARS_MAX or not all(map(_META_PART.fullmatch, parts)):
        raise BadRequest(f"invalid record path {shown_value(path)}")
    if "." in parts or ".." in parts:
        raise BadRequest(f"reserved name in record path {shown_value(path)}")
    return path


def check_meta_prefix(prefix: str) -> str:
    """Return ``prefix`` without a final ``/``; empty means everything. Raises: BadRequest."""
    prefix = prefix.rstrip("/")
    return check_meta_path(prefix) if prefix else ""


def check_meta_value(path: str, value: bytes) -> bytes:
    """Return ``value`` if it fits into one record. Raises: RequestTooLarge."""
    if len(value) > VALUE_BYTES_MAX:
        raise RequestTooLarge(f"record {path}: {len(value)} bytes, at most {VALUE_BYTES_MAX}")
    return value
