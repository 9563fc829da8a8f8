"""Whether an SDS call changes anything: such a call is never cancelled, and never repeated."""

from typing import Final

from opentalos.wire._generated.sds import BatchOp
from opentalos.wire.thrift.message import Call

_READS: Final = ("get", "describe", "find", "scan")  # how the names of such calls begin
_BATCHES: Final = ("batch", "partialAllowedBatch")
_SCANS: Final = ("scan", "scanAll")


def changes(call: Call) -> bool:
    """Whether the call may change something."""
    rpc, request = call.method.name, call.request
    if rpc in _BATCHES and request is not None:
        return any(item.action != BatchOp.GET for item in request.items or ())
    if rpc in _SCANS:
        return request is not None and request.action is not None
    return not rpc.startswith(_READS)
