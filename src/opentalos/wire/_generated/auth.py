"""Generated from idl/auth.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire.thrift.spec import (
    BOOL,
    STRING,
    Field,
    ThriftStruct,
    enum_of,
    list_of,
    struct_spec,
)


class UserType(IntEnum):
    """auth.thrift: enum UserType."""

    DEV_XIAOMI_SSO = 1
    DEV_XIAOMI = 2
    APP_SECRET = 10
    APP_ACCESS_TOKEN = 11
    APP_XIAOMI_SSO = 12
    APP_ANONYMOUS = 13


class MacAlgorithm(IntEnum):
    """auth.thrift: enum MacAlgorithm."""

    HmacMD5 = 1
    HmacSHA1 = 2
    HmacSHA256 = 3


class AppUserAuthProvider(IntEnum):
    """auth.thrift: enum AppUserAuthProvider."""

    XIAOMI_SSO = 1
    XIAOMI_OAUTH = 2
    QQ_OAUTH = 3
    SINA_OAUTH = 4
    RENREN_OAUTH = 5


class Credential(ThriftStruct, kw_only=True):
    """auth.thrift: Credential."""

    type: UserType | int | None = None
    secretKeyId: str | None = None
    secretKey: str | None = None


class HttpAuthorizationHeader(ThriftStruct, kw_only=True):
    """auth.thrift: HttpAuthorizationHeader."""

    version: str = "SDS-V1"
    userType: UserType | int = UserType.APP_ANONYMOUS
    secretKeyId: str | None = None
    secretKey: str | None = None
    signature: str | None = None
    algorithm: MacAlgorithm | int | None = None
    signedHeaders: list[str] = []
    supportAccountKey: bool = False


Credential.SPEC = struct_spec(
    Credential,
    Field(1, "type", enum_of(UserType)),
    Field(2, "secretKeyId", STRING),
    Field(3, "secretKey", STRING),
)
HttpAuthorizationHeader.SPEC = struct_spec(
    HttpAuthorizationHeader,
    Field(1, "version", STRING),
    Field(2, "userType", enum_of(UserType)),
    Field(3, "secretKeyId", STRING),
    Field(4, "secretKey", STRING),
    Field(5, "signature", STRING),
    Field(6, "algorithm", enum_of(MacAlgorithm)),
    Field(7, "signedHeaders", list_of(STRING)),
    Field(8, "supportAccountKey", BOOL),
)
