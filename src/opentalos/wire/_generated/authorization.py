"""Generated from idl/authorization.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire.thrift.spec import (
    STRING,
    Field,
    ThriftStruct,
    enum_of,
    struct_spec,
)


class GrantType(IntEnum):
    """authorization.thrift: enum GrantType."""

    DEVELOPER = 1
    APP_ROOT = 2
    APP_USER = 3
    GUEST = 4


class Grantee(  # type: ignore[misc]
    ThriftStruct, frozen=True, kw_only=True
):
    """authorization.thrift: Grantee."""

    type: GrantType | int | None = None
    identifier: str | None = None


Grantee.SPEC = struct_spec(
    Grantee,
    Field(1, "type", enum_of(GrantType)),
    Field(2, "identifier", STRING),
)
