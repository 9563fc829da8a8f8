"""Requests that kio encodes, in every version: for those that no client speaks any more."""

import io
import socket
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_writer
from scripts.kafka_capture.recorder import HOST, read_frame

from opentalos.wire.kafka.apis import SIZE, ApiKey, api_of, read_response
from opentalos.wire.kafka.codec import Cursor

TIMEOUT_S = 30.0
CORRELATION_ID = 7
CLIENT_ID = "golden"
WAIT_MS = 10_000


def filled(kind: Any, values: Mapping[str, Any]) -> Any:
    """An instance; fields without a value here have their default, or that of their type."""
    made = {}
    for part in fields(kind):
        if part.name in values:
            made[part.name] = _converted(part.type, values[part.name])
        elif part.default is MISSING:
            made[part.name] = _blank(part.type)
    return kind(**made)


def _sole(annotation: Any) -> Any:
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return parts[0] if NoneType in get_args(annotation) else annotation


def _converted(annotation: Any, value: Any) -> Any:
    inner = _sole(annotation)
    if value is None:
        return None
    if get_origin(inner) is tuple:
        return tuple(_converted(get_args(inner)[0], item) for item in value)
    if is_dataclass(inner):
        return filled(inner, value)
    if isinstance(inner, type) and issubclass(inner, timedelta):
        return timedelta(milliseconds=value)
    return value


def _blank(annotation: Any) -> Any:
    if NoneType in get_args(annotation):
        return None
    if get_origin(annotation) is tuple:
        return ()
    if is_dataclass(annotation):
        return filled(annotation, {})
    for kind, value in ((bool, False), (timedelta, timedelta(0)), (UUID, UUID(int=0)), (str, "")):
        if isinstance(annotation, type) and issubclass(annotation, kind):
            return value
    return b"" if isinstance(annotation, type) and issubclass(annotation, bytes) else 0


class MadeClient:
    """One connection whose requests are kio's bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=TIMEOUT_S)

    def __enter__(self) -> "MadeClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def call(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        """The answer, decoded by us."""
        kind = load_request_schema(key, version)
        header: Any = kind.__header_schema__
        head = header(
            request_api_key=int(key),
            request_api_version=version,
            correlation_id=CORRELATION_ID,
            client_id=CLIENT_ID,
        )
        out = io.BytesIO()
        entity_writer(header)(out, head)
        entity_writer(kind)(out, filled(kind, values))
        self.send(out.getvalue())
        return read_response(api_of(key), version, Cursor(read_frame(self._socket)))[1]

    def send(self, frame: bytes) -> None:
        """A frame as it is."""
        self._socket.sendall(SIZE.pack(len(frame)) + frame)

    def token(self, data: bytes) -> bytes:
        """A mechanism's bytes without a header, and its answer."""
        self.send(data)
        return read_frame(self._socket)
