"""Slots: shares of concurrent calls."""

import pytest

from opentalos.gateway.slots import Slot, Slots
from opentalos.model.errors import ExcessivePending
from opentalos.model.identity import GUEST, Principal

ALICE, BOB = Principal(id="alice", number=1), Principal(id="bob", number=2)
ROOT = Principal(id="root", number=3, admin=True)


def taken(slots: Slots, caller: Principal, network: str = "192.0.2.1") -> list[Slot]:
    """As many places as the caller gets."""
    found: list[Slot] = []
    try:
        while True:
            found.append(slots.take(caller, network))
    except ExcessivePending:
        return found


def test_one_tenant_gets_half_and_there_is_always_some_left_for_the_next() -> None:
    slots = Slots("calls", 2_000, 100)
    assert len(taken(slots, ALICE)) == 950
    assert len(taken(slots, BOB)) == 475
    for number in range(5):
        assert taken(slots, Principal(id=f"u{number}", number=number)), "nothing is left"


def test_administrators_have_places_of_their_own() -> None:
    slots = Slots("calls", 20, 4)
    for number in range(100):
        taken(slots, Principal(id=f"u{number}", number=number))
    assert slots.used == 16
    assert len(taken(slots, ROOT)) == 4


def test_members_of_an_organisation_share_and_guests_share_by_address() -> None:
    slots = Slots("calls", 100, 0)
    first = Principal(id="u1", number=1, organisation="CL1")
    second = Principal(id="u2", number=2, organisation="CL1")
    assert len(taken(slots, first)) == 50
    assert taken(slots, second) == []
    assert len(taken(slots, GUEST, "192.0.2.1")) == 25
    assert taken(slots, GUEST, "192.0.2.1") == []
    assert len(taken(slots, GUEST, "192.0.2.2")) == 13


def test_a_place_passes_to_the_caller_who_becomes_known() -> None:
    slots = Slots("calls", 10, 0)
    slot = slots.take(GUEST, "192.0.2.1")
    slot.pass_to(ALICE, "192.0.2.1")
    assert slots.used == 1
    assert len(taken(slots, ALICE)) == 4, "with the first one that is half"
    other = slots.take(GUEST, "192.0.2.1")
    with pytest.raises(ExcessivePending):
        other.pass_to(ALICE, "192.0.2.1")
    other.free()
    assert slots.used == 5
    slot.free()
    assert slots.used == 4


def test_a_place_returns_once() -> None:
    slots = Slots("calls", 4, 0)
    slot, _ = slots.take(ALICE, ""), slots.take(BOB, "")
    slot.free()
    slot.free()
    assert slots.used == 1
    assert len(taken(slots, ALICE)) == 2


def test_the_error_says_what_the_caller_holds() -> None:
    slots = Slots("calls", 10, 0)
    taken(slots, ALICE)
    with pytest.raises(
        ExcessivePending, match=r"too many calls .*5 of this caller, 5 of 10 places"
    ):
        slots.take(ALICE, "")
