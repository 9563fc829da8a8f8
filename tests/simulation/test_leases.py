"""Leases in the simulated world: one holder at a time, and late writes are refused."""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import CRASHES, Mutant, _names
from tests.simulation.proof import prove_caught

from opentalos.catalog.leases import leases
from opentalos.catalog.leases.lease import (
    Lease,
    LeaseRequest,
    TenantLeases,
    released,
    taken,
)
from opentalos.model.errors import LeaseNotHeld
from opentalos.pipelines.lease import check_epoch
from opentalos.testing.simulation.clients import lease_clients
from opentalos.testing.simulation.clients.lease_clients import FencedTable
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.seed_run import run_lease_seed
from opentalos.testing.simulation.stores.faults import MetaFaults, WorldFaults
from opentalos.testing.simulation.world.world import WorldConfig

SEEDS = 6
CHAOS_S = 60.0
BUSY = replace(CRASHES, chaos_s=CHAOS_S)
# Two servers at once, pauses, and compare-and-sets that are applied later.
ZOMBIES = replace(
    BUSY,
    meta=MetaFaults(unknown=0.1, unknown_later=0.5, unavailable=0.05, slow=0.1),
    world=WorldFaults(usurped=0.2, pause=0.2, process_crash=0.1),
)


def the_epoch_does_not_grow(patch: pytest.MonkeyPatch) -> None:
    def again(stored: TenantLeases, request: LeaseRequest, **more: Any) -> TenantLeases:
        after = taken(stored, request, **more)
        epoch = max(stored.epoch, 1)
        lease = replace(after.leases[request.name], epoch=epoch)
        return TenantLeases(epoch, {**after.leases, request.name: lease})

    patch.setattr(leases, "taken", again)


def a_release_forgets_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def forget(stored: TenantLeases, name: str, epoch: int | None) -> TenantLeases:
        return replace(released(stored, name, epoch), epoch=0)

    patch.setattr(leases, "released", forget)


def a_late_write_is_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease_clients, "check_epoch", lambda *_: None)


def a_write_does_not_note_its_epoch(patch: pytest.MonkeyPatch) -> None:
    def write(self: FencedTable, epoch: int) -> None:
        check_epoch("the table", epoch, self.newest)

    patch.setattr(FencedTable, "write", write)


def the_epoch_is_compared_before_a_pause_and_not_at_the_write(patch: pytest.MonkeyPatch) -> None:
    """As if the fence were asked, and the write made some time after the answer."""
    invoke = lease_clients.Holder._invoke

    def asked_first(self: lease_clients.Holder, action: str, **args: Any) -> Operation:
        operation = invoke(self, action, **args)
        if action == "lease-write":
            self._table.checked = self._table.newest <= args["epoch"]  # type: ignore[attr-defined]
        return operation

    def write(self: FencedTable, epoch: int) -> None:
        if not self.checked:  # type: ignore[attr-defined]
            raise LeaseNotHeld("a run with a higher epoch has written")
        self.newest = max(self.newest, epoch)

    patch.setattr(lease_clients.Holder, "_invoke", asked_first)
    patch.setattr(FencedTable, "write", write)


def a_renewal_is_accepted_after_another_holder_took_the_lease(patch: pytest.MonkeyPatch) -> None:
    def renewed(stored: TenantLeases, request: LeaseRequest, epoch: int) -> TenantLeases:
        now = stored.leases.get(request.name)
        lease = Lease(
            name=request.name,
            holder=request.holder,
            epoch=epoch,
            ttl_ms=request.ttl_ms,
            renewals=now.renewals + 1 if now is not None else 0,
        )
        return replace(stored, leases={request.name: lease})

    patch.setattr(leases, "renewed", renewed)


def a_lease_expires_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases.ObservedLease, "expired", True)


def a_lease_never_expires(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases.ObservedLease, "expired", False)


MUTANTS = (
    Mutant("the epoch does not grow", _names("lease-epoch-repeated"), the_epoch_does_not_grow),
    Mutant(
        "a release forgets the epoch",
        _names("lease-epoch-repeated", "stale-lease-write"),
        a_release_forgets_the_epoch,
    ),
    Mutant("a late write is accepted", _names("stale-lease-write"), a_late_write_is_accepted),
    Mutant(
        "a write does not note its epoch",
        _names("stale-lease-write"),
        a_write_does_not_note_its_epoch,
    ),
    Mutant(
        "the epoch is compared before a pause and not at the write",
        _names("stale-lease-write"),
        the_epoch_is_compared_before_a_pause_and_not_at_the_write,
    ),
    Mutant(
        "a renewal is accepted after another holder took the lease",
        _names("stale-lease-renewal", "two-lease-holders"),
        a_renewal_is_accepted_after_another_holder_took_the_lease,
    ),
    Mutant("a lease expires at once", _names("two-lease-holders"), a_lease_expires_at_once),
    Mutant("a lease never expires", _names("stuck-lease"), a_lease_never_expires),
)


@pytest.mark.parametrize("config", [BUSY, ZOMBIES], ids=["crashes", "zombies"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_lease_has_one_holder_whose_late_writes_are_refused(
    seed: int, config: WorldConfig
) -> None:
    report = run_lease_seed(seed, config)
    assert report.ok, report


def test_holders_change_renew_and_are_refused() -> None:
    histories = [run_lease_seed(seed, ZOMBIES).history for seed in range(SEEDS)]
    operations = [each for history in histories for each in history.operations]
    epochs = {each.result["epoch"] for each in operations if each.ok and "epoch" in each.result}
    assert len(epochs) > 10
    assert sum(each.ok for each in operations if each.action == "renew-lease") > 20
    refused = [each for each in operations if each.action == "lease-write" and not each.may_be_done]
    assert refused, "no holder wrote too late"
    assert any("LeaseHeld" in each.error for each in operations)


def test_a_seed_gives_the_same_history() -> None:
    assert run_lease_seed(3, ZOMBIES).digest() == run_lease_seed(3, ZOMBIES).digest()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, ZOMBIES, run_lease_seed, monkeypatch)
