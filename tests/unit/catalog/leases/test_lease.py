"""What a tenant's leases become: epochs only grow, and a stale holder changes nothing."""

import pytest

from opentalos.catalog.leases import lease as lease_module
from opentalos.catalog.leases.lease import (
    EPOCH_SEEN_MAX,
    NO_LEASES,
    LeaseRequest,
    TenantLeases,
    decode_leases,
    encode_leases,
    released,
    renewed,
    taken,
)
from opentalos.model.errors import (
    BadRequest,
    CorruptLog,
    InvalidName,
    LeaseHeld,
    LeaseNotHeld,
    NewerFormat,
    QuotaExceeded,
)


def asked(holder: str, name: str = "run", *, seen: int = 0) -> LeaseRequest:
    return LeaseRequest(name=name, holder=holder, ttl_ms=5_000, seen=seen)


def held_by(holder: str, stored: TenantLeases = NO_LEASES) -> TenantLeases:
    return taken(stored, asked(holder), expired=("run",))


def test_each_holder_has_a_higher_epoch() -> None:
    first = held_by("a")
    second = held_by("b", first)
    assert (first.leases["run"].epoch, second.leases["run"].epoch) == (1, 2)
    assert second.leases["run"].holder == "b"
    assert held_by("a", second).leases["run"].epoch == 3


def test_a_lease_that_is_not_expired_is_refused_to_others() -> None:
    with pytest.raises(LeaseHeld, match="held by a under epoch 1"):
        taken(held_by("a"), asked("b"), expired=())


def test_the_same_holder_keeps_its_epoch() -> None:
    again = taken(held_by("a"), asked("a"), expired=())
    lease = again.leases["run"]
    assert (lease.epoch, lease.renewals, again.epoch) == (1, 1, 1)


def test_a_renewal_counts_and_keeps_the_epoch() -> None:
    after = renewed(held_by("a"), asked("a"), 1)
    lease = after.leases["run"]
    assert (lease.epoch, lease.renewals) == (1, 1)


@pytest.mark.parametrize(("holder", "epoch"), [("a", 1), ("b", 1), ("a", 2), ("c", 2)])
def test_a_former_holder_cannot_renew(holder: str, epoch: int) -> None:
    with pytest.raises(LeaseNotHeld, match="b holds it under epoch 2"):
        renewed(held_by("b", held_by("a")), asked(holder), epoch)


def test_an_epoch_does_not_return_after_a_release() -> None:
    free = released(held_by("a"), "run", 1)
    assert free.leases == {}
    assert held_by("b", free).leases["run"].epoch == 2
    with pytest.raises(LeaseNotHeld, match="nobody holds it"):
        renewed(free, asked("a"), 1)


def test_only_the_named_epoch_is_released() -> None:
    stored = held_by("b", held_by("a"))
    with pytest.raises(LeaseNotHeld):
        released(stored, "run", 1)
    with pytest.raises(LeaseNotHeld):
        released(stored, "other", None)
    assert released(stored, "run", None).leases == {}


def test_names_share_one_counter_so_a_deleted_name_gets_no_old_epoch() -> None:
    stored = held_by("a")
    for _ in range(3):
        stored = released(taken(stored, asked("a", "other"), expired=()), "other", None)
    assert taken(stored, asked("a", "other"), expired=()).leases["other"].epoch == 5
    assert stored.leases["run"].epoch == 1


def test_an_epoch_is_above_what_the_holder_has_seen() -> None:
    """As after a restore from an older backup."""
    assert taken(NO_LEASES, asked("a", seen=57), expired=()).leases["run"].epoch == 58
    again = taken(held_by("a"), asked("a", seen=57), expired=())
    assert again.leases["run"].epoch == 58


def test_expired_leases_give_room_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "LEASES_MAX", 3)
    stored = NO_LEASES
    for name in ("x", "y", "z"):
        stored = taken(stored, asked("a", name), expired=())
    with pytest.raises(QuotaExceeded, match="limit 3"):
        taken(stored, asked("a"), expired=())
    after = taken(stored, asked("a"), expired=("x", "z"))
    assert sorted(after.leases) == ["run", "y"]
    assert after.leases["run"].epoch == 4
    assert taken(stored, asked("b", "y"), expired=("y",)).leases["y"].holder == "b"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name": "_x"}, InvalidName),
        ({"holder": ""}, BadRequest),
        ({"holder": "a\nb"}, BadRequest),
        ({"holder": "\u00e5"}, BadRequest),
        ({"holder": "h" * 201}, BadRequest),
        ({"ttl_ms": 999}, BadRequest),
        ({"ttl_ms": 3_600_001}, BadRequest),
        ({"seen": -1}, BadRequest),
        ({"seen": EPOCH_SEEN_MAX + 1}, BadRequest),
    ],
)
def test_a_request_is_bounded(changed: dict[str, object], error: type[Exception]) -> None:
    good: dict[str, object] = {"name": "run", "holder": "a", "ttl_ms": 5_000, "seen": 0}
    with pytest.raises(error):
        LeaseRequest(**{**good, **changed})  # type: ignore[arg-type]


def test_a_record_comes_back() -> None:
    stored = taken(held_by("a"), asked("b", "other"), expired=())
    assert decode_leases(encode_leases(stored)) == stored
    assert b'"version":1' in encode_leases(stored)


@pytest.mark.parametrize("value", [b"", b"{}", b'{"version":1,"epoch":1,"leases":[{"x":1}]}'])
def test_an_invalid_record_is_named(value: bytes) -> None:
    with pytest.raises(CorruptLog, match="record of leases"):
        decode_leases(value)


def test_a_newer_record_is_refused() -> None:
    with pytest.raises(NewerFormat, match="record of leases has format 2"):
        decode_leases(b'{"version":2}')
