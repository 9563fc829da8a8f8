"""An organisation asks for partitions, each total in turn, and sees what it has."""

from functools import partial

from sdk import Arguments, error_of, run, say, service
from talos.thrift.quota import QuotaService
from talos.thrift.quota.ttypes import AutoApplyQuotaRequest, PartitionQuotaInfo


def ask(arguments: Arguments) -> None:
    client = service(arguments, QuotaService)
    for total in arguments["totals"]:
        wanted = PartitionQuotaInfo(arguments["organisation"], total, applyReason="a test")
        failed = error_of(partial(client.autoApplyQuota, AutoApplyQuotaRequest(wanted)))
        found = client.listQuota()
        pending = [item.totalQuota for item in client.listPendingQuota().pendingQuotaList]
        say(total=total, approved=found.approvedTotalQuota, pending=pending, **failed)


run(ask)
