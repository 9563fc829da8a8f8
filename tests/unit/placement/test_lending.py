"""Plans around restarts that lend their partitions."""

from dataclasses import replace

from tests.unit.placement.test_plan import (
    FREE,
    LONG_AGO_S,
    NOW_S,
    PARTITIONS,
    POLICY,
    THREE,
    after,
    draining,
    reserved,
    server,
    settle,
    situation,
    with_servers,
)

from opentalos.placement.plan import plan
from opentalos.placement.values import Candidate


def lending(name: str, *, alive: bool = True) -> Candidate:
    return Candidate(
        name=name, alive=alive, since_s=LONG_AGO_S, reserved_until_s=NOW_S + 20, lending=True
    )


def test_a_lending_restart_gives_everything_to_others_and_takes_it_back() -> None:
    mine = {key for key, owner in THREE.owners.items() if owner == "b"}
    first = plan(with_servers(THREE, lending("b")), POLICY)
    assert len(first.moved_from) == POLICY.moves_at_once
    assert set(first.moved_from.values()) == {"b"}
    assert first.lent == dict.fromkeys(first.moved_from, "b")
    assert first.ring == THREE.ring
    lent = settle(with_servers(THREE, lending("b")))
    assert "b" not in lent.owners.values()
    assert lent.lent == dict.fromkeys(mine, "b")
    assert {key for key in PARTITIONS if lent.owners[key] != THREE.owners[key]} == mine
    away = settle(with_servers(lent, lending("b", alive=False)))
    assert (away.owners, away.ring) == (lent.owners, THREE.ring)
    back = with_servers(away, server("b", since_s=NOW_S))
    assert len(plan(back, POLICY).moved_from) == POLICY.moves_at_once
    assert settle(back).owners == THREE.owners
    assert not settle(back).lent


def test_what_was_not_lent_in_time_is_lent_at_once_when_the_server_is_gone() -> None:
    gone = with_servers(THREE, lending("b", alive=False))
    now = plan(gone, POLICY)
    assert "b" not in now.owners.values()
    assert not now.moved_from
    assert now.lent == {key: "b" for key, owner in THREE.owners.items() if owner == "b"}
    assert settle(with_servers(after(gone, now), server("b", since_s=NOW_S))).owners == THREE.owners


def test_while_partitions_are_lent_no_other_one_moves() -> None:
    """Full servers stay full, and the room of the one that is away is not given to others."""
    joined = settle(with_servers(THREE, server("d")))
    uneven = settle(with_servers(joined, server("d", alive=False)))
    for name in "abc":
        lent = settle(with_servers(uneven, lending(name)))
        moved_now = {key for key in PARTITIONS if lent.owners[key] != uneven.owners[key]}
        assert moved_now == set(lent.lent)
        assert settle(with_servers(lent, server(name, since_s=NOW_S))).owners == uneven.owners


def test_a_partition_of_a_dead_borrower_returns_to_its_lender_too() -> None:
    lent = settle(with_servers(THREE, lending("b")))
    lent = with_servers(lent, lending("b", alive=False), server("a", alive=False))
    moved_on = after(lent, plan(lent, POLICY))
    assert set(moved_on.owners.values()) == {"c"}
    back = settle(with_servers(moved_on, server("b", since_s=NOW_S)))
    mine = {key for key, owner in THREE.owners.items() if owner == "b"}
    assert mine <= {key for key, owner in back.owners.items() if owner == "b"}


def test_a_borrower_that_restarts_lends_on_and_everything_returns() -> None:
    lent = settle(with_servers(THREE, lending("b")))
    both = settle(with_servers(lent, lending("a")))
    assert set(both.owners.values()) == {"c"}
    first = settle(with_servers(both, server("b", since_s=NOW_S)))
    assert settle(with_servers(first, server("a", since_s=NOW_S))).owners == THREE.owners


def test_a_server_that_lent_and_never_returns_loses_its_partitions() -> None:
    lent = settle(with_servers(THREE, lending("b", alive=False)))
    late = plan(replace(lent, now_s=NOW_S + 20), FREE)
    assert plan(lent, POLICY).next_look_s == NOW_S + 20
    assert not late.lent
    assert "b" not in late.ring


def test_the_only_server_lends_nothing() -> None:
    alone = settle(situation(server("a")))
    now = plan(with_servers(alone, lending("a")), POLICY)
    assert set(now.owners.values()) == {"a"}
    assert not now.lent


def test_a_drained_borrower_is_emptied_and_the_loan_remains() -> None:
    lent = settle(with_servers(settle(with_servers(THREE, lending("b"))), draining("a")))
    assert all(lent.owners[key] == "c" for key in lent.lent)
    assert set(lent.lent) == {key for key, owner in THREE.owners.items() if owner == "b"}
    back = settle(with_servers(lent, server("b", since_s=NOW_S)))
    assert not back.lent
    assert "a" not in back.owners.values()


def test_draining_servers_exchange_nothing_while_the_only_other_one_restarts() -> None:
    for away in (lending("b"), lending("b", alive=False), reserved("b", NOW_S + 20)):
        rest = settle(with_servers(THREE, draining("a"), away, draining("c")))
        assert set(rest.owners.values()) <= {"a", "b", "c"}
        assert plan(rest, POLICY).owners == rest.owners


def test_lenders_keep_what_they_have_while_nobody_is_alive() -> None:
    away = with_servers(THREE, *(lending(name, alive=False) for name in "abc"))
    assert plan(away, POLICY).owners == THREE.owners
