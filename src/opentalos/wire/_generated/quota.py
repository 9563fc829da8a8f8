"""Generated from idl/quota.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations


from opentalos.wire._generated.common import (
    GalaxyTalosException,
    TALOS_BASE_SERVICE,
)
from opentalos.wire.thrift.spec import (
    BOOL,
    I32,
    I64,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    ThriftStruct,
    list_of,
    map_of,
    struct_of,
    struct_spec,
)


class BaseQuota(ThriftStruct, kw_only=True):
    """quota.thrift: BaseQuota."""

    spaceQuota: int
    usedSpace: int | None = None
    remainingSpace: int | None = None
    putMessageQpsQuota: int | None = None
    getMessageQpsQuota: int | None = None
    putMessageBytesQpsQuota: int | None = None
    getMessageBytesQpsQuota: int | None = None


class UserQuota(ThriftStruct, kw_only=True):
    """quota.thrift: UserQuota."""

    baseQuota: BaseQuota
    topicNumberQuota: int | None = None


class SetUserQuotaRequest(ThriftStruct, kw_only=True):
    """quota.thrift: SetUserQuotaRequest."""

    developerId: str
    userQuota: UserQuota


class QueryUserQuotaResponse(ThriftStruct, kw_only=True):
    """quota.thrift: QueryUserQuotaResponse."""

    userQuota: UserQuota


class ListUserQuotaResponse(ThriftStruct, kw_only=True):
    """quota.thrift: ListUserQuotaResponse."""

    userQuotaList: dict[str, UserQuota]


class DeleteUserQuotaRequest(ThriftStruct, kw_only=True):
    """quota.thrift: DeleteUserQuotaRequest."""

    developerId: str


class PartitionQuotaInfo(ThriftStruct, kw_only=True):
    """quota.thrift: PartitionQuotaInfo."""

    orgId: str
    totalQuota: int
    usedOuota: int | None = None
    applyReason: str | None = None
    orgName: str | None = None


class ApplyQuotaRequest(ThriftStruct, kw_only=True):
    """quota.thrift: ApplyQuotaRequest."""

    quotaInfo: PartitionQuotaInfo


class AutoApplyQuotaRequest(ThriftStruct, kw_only=True):
    """quota.thrift: AutoApplyQuotaRequest."""

    quotaInfo: PartitionQuotaInfo


class ListQuotaResponse(ThriftStruct, kw_only=True):
    """quota.thrift: ListQuotaResponse."""

    quotaList: list[PartitionQuotaInfo]
    approvedTotalQuota: int


class ListPendingQuotaResponse(ThriftStruct, kw_only=True):
    """quota.thrift: ListPendingQuotaResponse."""

    pendingQuotaList: list[PartitionQuotaInfo]
    talosAdmin: bool


class ApproveQuotaRequest(ThriftStruct, kw_only=True):
    """quota.thrift: ApproveQuotaRequest."""

    quotaInfo: PartitionQuotaInfo


class ApproveQuotaResponse(ThriftStruct, kw_only=True):
    """quota.thrift: ApproveQuotaResponse."""

    pendingQuotaList: list[PartitionQuotaInfo]
    talosAdmin: bool


class RevokeQuotaRequest(ThriftStruct, kw_only=True):
    """quota.thrift: RevokeQuotaRequest."""

    quotaInfo: PartitionQuotaInfo


class RevokeQuotaResponse(ThriftStruct, kw_only=True):
    """quota.thrift: RevokeQuotaResponse."""

    pendingQuotaList: list[PartitionQuotaInfo]
    talosAdmin: bool


BaseQuota.SPEC = struct_spec(
    BaseQuota,
    Field(1, "spaceQuota", I64, required=True),
    Field(2, "usedSpace", I64),
    Field(3, "remainingSpace", I64),
    Field(4, "putMessageQpsQuota", I32),
    Field(5, "getMessageQpsQuota", I32),
    Field(6, "putMessageBytesQpsQuota", I64),
    Field(7, "getMessageBytesQpsQuota", I64),
)
UserQuota.SPEC = struct_spec(
    UserQuota,
    Field(1, "baseQuota", struct_of(BaseQuota), required=True),
    Field(2, "topicNumberQuota", I32),
)
SetUserQuotaRequest.SPEC = struct_spec(
    SetUserQuotaRequest,
    Field(1, "developerId", STRING, required=True),
    Field(2, "userQuota", struct_of(UserQuota), required=True),
)
QueryUserQuotaResponse.SPEC = struct_spec(
    QueryUserQuotaResponse,
    Field(1, "userQuota", struct_of(UserQuota), required=True),
)
ListUserQuotaResponse.SPEC = struct_spec(
    ListUserQuotaResponse,
    Field(1, "userQuotaList", map_of(STRING, struct_of(UserQuota)), required=True),
)
DeleteUserQuotaRequest.SPEC = struct_spec(
    DeleteUserQuotaRequest,
    Field(1, "developerId", STRING, required=True),
)
PartitionQuotaInfo.SPEC = struct_spec(
    PartitionQuotaInfo,
    Field(1, "orgId", STRING, required=True),
    Field(2, "totalQuota", I32, required=True),
    Field(3, "usedOuota", I32),
    Field(4, "applyReason", STRING),
    Field(5, "orgName", STRING),
)
ApplyQuotaRequest.SPEC = struct_spec(
    ApplyQuotaRequest,
    Field(1, "quotaInfo", struct_of(PartitionQuotaInfo), required=True),
)
AutoApplyQuotaRequest.SPEC = struct_spec(
    AutoApplyQuotaRequest,
    Field(1, "quotaInfo", struct_of(PartitionQuotaInfo), required=True),
)
ListQuotaResponse.SPEC = struct_spec(
    ListQuotaResponse,
    Field(1, "quotaList", list_of(struct_of(PartitionQuotaInfo)), required=True),
    Field(2, "approvedTotalQuota", I32, required=True),
)
ListPendingQuotaResponse.SPEC = struct_spec(
    ListPendingQuotaResponse,
    Field(1, "pendingQuotaList", list_of(struct_of(PartitionQuotaInfo)), required=True),
    Field(2, "talosAdmin", BOOL, required=True),
)
ApproveQuotaRequest.SPEC = struct_spec(
    ApproveQuotaRequest,
    Field(1, "quotaInfo", struct_of(PartitionQuotaInfo), required=True),
)
ApproveQuotaResponse.SPEC = struct_spec(
    ApproveQuotaResponse,
    Field(1, "pendingQuotaList", list_of(struct_of(PartitionQuotaInfo)), required=True),
    Field(2, "talosAdmin", BOOL, required=True),
)
RevokeQuotaRequest.SPEC = struct_spec(
    RevokeQuotaRequest,
    Field(1, "quotaInfo", struct_of(PartitionQuotaInfo), required=True),
)
RevokeQuotaResponse.SPEC = struct_spec(
    RevokeQuotaResponse,
    Field(1, "pendingQuotaList", list_of(struct_of(PartitionQuotaInfo)), required=True),
    Field(2, "talosAdmin", BOOL, required=True),
)

QUOTA_SERVICE = ServiceSpec(
    "QuotaService",
    "/v1/api/quota",
    {
        **TALOS_BASE_SERVICE.methods,
        "setUserQuota": MethodSpec(
            "setUserQuota",
            (Field(1, "request", struct_of(SetUserQuotaRequest)),),
            None,
            GalaxyTalosException,
        ),
        "listUserQuota": MethodSpec(
            "listUserQuota",
            (),
            struct_of(ListUserQuotaResponse),
            GalaxyTalosException,
        ),
        "queryUserQuota": MethodSpec(
            "queryUserQuota",
            (),
            struct_of(QueryUserQuotaResponse),
            GalaxyTalosException,
        ),
        "deleteUserQuota": MethodSpec(
            "deleteUserQuota",
            (Field(1, "request", struct_of(DeleteUserQuotaRequest)),),
            None,
            GalaxyTalosException,
        ),
        "applyQuota": MethodSpec(
            "applyQuota",
            (Field(1, "request", struct_of(ApplyQuotaRequest)),),
            None,
            GalaxyTalosException,
        ),
        "autoApplyQuota": MethodSpec(
            "autoApplyQuota",
            (Field(1, "request", struct_of(AutoApplyQuotaRequest)),),
            None,
            GalaxyTalosException,
        ),
        "listQuota": MethodSpec(
            "listQuota",
            (),
            struct_of(ListQuotaResponse),
            GalaxyTalosException,
        ),
        "listPendingQuota": MethodSpec(
            "listPendingQuota",
            (),
            struct_of(ListPendingQuotaResponse),
            GalaxyTalosException,
        ),
        "approveQuota": MethodSpec(
            "approveQuota",
            (Field(1, "request", struct_of(ApproveQuotaRequest)),),
            struct_of(ApproveQuotaResponse),
            GalaxyTalosException,
        ),
        "revokeQuota": MethodSpec(
            "revokeQuota",
            (Field(1, "request", struct_of(RevokeQuotaRequest)),),
            struct_of(RevokeQuotaResponse),
            GalaxyTalosException,
        ),
    },
)
