"""Checks of named leases, by which processes of a tenant agree who acts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.history import History, Operation


def lease_epochs(history: History) -> Iterator[Anomaly]:
    """Each change of the holder has a higher epoch, and no renewal is for an earlier one."""
    for lease, operations in _by_lease(history).items():
        grants = [each for each in operations if each.ok and each.action == "take-lease"]
        for later in operations:
            if not later.ok or later.action not in ("take-lease", "renew-lease"):
                continue
            epoch, holder = later.result["epoch"], later.args["holder"]
            for grant in grants:
                known, other = grant.result["epoch"], grant.args["holder"] != holder
                if other and known == epoch:
                    yield Anomaly("lease-epoch-repeated", f"{lease}: {grant}, and {later}")
                elif grant.ended_s < later.began_s and known > epoch:
                    name = "lease-epoch-repeated"
                    if later.action == "renew-lease":
                        name = "stale-lease-renewal"
                    yield Anomaly(name, f"{lease}: {grant}, but then {later}")


def two_lease_holders(history: History) -> Iterator[Anomaly]:
    """Two holders may believe at the same time that they have a lease.

    A holder does so from a reply that grants or renews it, until its ttl has passed since it asked.
    """
    for lease, operations in _by_lease(history).items():
        released = {
            (each.args["holder"], each.args["epoch"]): each.began_s
            for each in reversed(operations)
            if each.action == "release-lease" and each.may_be_done
        }
        believed = []
        for each in operations:
            if each.ok and each.action in ("take-lease", "renew-lease"):
                holder = each.args["holder"]
                until_s = each.began_s + each.args["ttl_s"]
                key = (holder, each.result["epoch"])
                until_s = min(until_s, released.get(key, until_s))
                believed.append((each.ended_s, until_s, holder, each))
        believed.sort(key=lambda item: item[0])
        for index, (_, until_s, holder, first) in enumerate(believed):
            for from_s, later_until_s, other, second in believed[index + 1 :]:
                if other != holder and from_s < min(until_s, later_until_s):
                    yield Anomaly("two-lease-holders", f"{lease}: {first}, and {second}")


def stale_lease_writes(history: History) -> Iterator[Anomaly]:
    """A write was accepted although a holder with a higher epoch had written before."""
    for lease, operations in _by_lease(history).items():
        newest: Operation | None = None
        written = [each for each in operations if each.ok and each.action == "lease-write"]
        for write in sorted(written, key=lambda each: each.ended_s):
            if newest is not None and write.args["epoch"] < newest.args["epoch"]:
                yield Anomaly("stale-lease-write", f"{lease}: {newest}, but then {write}")
            else:
                newest = write


def _by_lease(history: History) -> Mapping[str, list[Operation]]:
    found: dict[str, list[Operation]] = defaultdict(list)
    for each in history.of("take-lease", "renew-lease", "release-lease", "lease-write"):
        found[each.args["lease"]].append(each)
    return found
