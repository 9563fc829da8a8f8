"""RPCs that are answered with UNSUPPORTED_OPERATION, and why."""

from functools import partial
from typing import Any, Final, NoReturn

from opentalos.gateway.sds_http.handlers.context import Handler, Services
from opentalos.model.errors import NotSupported
from opentalos.model.identity import Principal

_REASONS: Final[dict[str, tuple[str, ...]]] = {
    "tables have no transactions; a batch does its items one by one": (
        "atomicBatch", "newTransaction", "transactionGet", "transactionCommit",
    ),
    "indexes are kept by the server alone": ("putToRebuildIndex", "getIndexTableSplits"),
    "there are no snapshots and no way back in time; back up the server instead": (
        "listSnapshots", "snapshotTable", "deleteSnapshot", "restoreSnapshot", "listAllSnapshots",
        "cancelSnapshotTable", "getSnapshotState", "getFloorStreamCheckpoint",
        "getCeilStreamCheckpoint", "recoverTable", "getDefaultColdStandBy",
    ),
    "a dropped table is gone": ("listAllDeletedTables", "restoreTable"),
    "make a table of the new name and follow the old one's stream": ("cloneTable", "renameTable"),
    "users and their keys are managed by REST, talos user and talos key": (
        "createCredential", "saveAppInfo", "getAppInfo", "findAllApps", "findAllAppInfo",
    ),
    "access and rates are part of each table's metadata": (
        "getApplyList", "applyQuota", "getAllApplyList", "passApply", "rejectApply", "cancelApply",
        "getQuotaInfo", "getGrantRule", "setGrantRule", "setSpaceId",
    ),
    "figures are on the server's /metrics page, alerts come from what reads it": (
        "queryMetric", "queryMetrics", "getTableHistorySize", "subscribePhoneAlert",
        "unsubscribePhoneAlert", "subscribeEmailAlert", "unsubscribeEmailAlert",
        "listSubscribedPhone", "listSubscribedEmail",
    ),
}  # fmt: skip


async def _refuse(
    rpc: str, reason: str, _: Services, __: Principal, ___: tuple[Any, ...]
) -> NoReturn:
    raise NotSupported(f"{rpc} is not supported: {reason}")


HANDLERS: Final[dict[str, Handler]] = {
    rpc: partial(_refuse, rpc, reason) for reason, rpcs in _REASONS.items() for rpc in rpcs
}
