"""The states of a table shard: every pair of state and event is either a transition or illegal."""

import ast
from itertools import product
from pathlib import Path

import pytest
from tests.unit.matrix import matrix

from opentalos.broker.tables.shard import state as state_module
from opentalos.broker.tables.shard.state import (
    ACCEPTS,
    FINAL,
    PUBLISHES,
    TRANSITIONS,
    WRITES,
    Event,
    IllegalTransition,
    ShardLife,
    State,
)


def life_in(state: State) -> ShardLife:
    life = ShardLife()
    life._enter(state)
    return life


@matrix(("state", "event"), [*product(State, Event)])
def test_an_event_is_a_transition_or_illegal(state: State, event: Event) -> None:
    life = life_in(state)
    if (state, event) in TRANSITIONS:
        assert life.on(event) is TRANSITIONS[state, event] is life.state
        return
    with pytest.raises(IllegalTransition, match=f"event {event.name} in state {state.name}"):
        life.on(event)
    assert life.at(State.FENCED)
    assert life.stopped
    assert not life.writes
    assert not life.publishes


def test_every_state_is_reachable_and_every_event_is_used() -> None:
    reached = {ShardLife().state}
    while more := {to for (state, _), to in TRANSITIONS.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_final_states_have_no_way_out_and_every_other_state_has_one() -> None:
    left = {state for state, _ in TRANSITIONS}
    assert left == set(State) - FINAL
    for state in set(State) - FINAL:
        assert TRANSITIONS[state, Event.FAIL] is State.CLOSED


def test_a_shard_of_a_table_with_streams_serves_only_after_it_has_read_what_is_pending() -> None:
    """The only ways to SERVING are: no stream, or claimed and then read."""
    assert {edge for edge, to in TRANSITIONS.items() if to is State.SERVING} == {
        (State.OPENING, Event.NO_STREAMS),
        (State.READING, Event.PENDING_READ),
    }
    assert {edge for edge, to in TRANSITIONS.items() if to is State.READING} == {
        (State.CLAIMING, Event.CLAIMED)
    }


def test_who_writes_also_publishes_and_accepts() -> None:
    assert WRITES < PUBLISHES < ACCEPTS
    assert not ACCEPTS & FINAL
    assert State.RELEASING not in ACCEPTS


def test_epochs_of_an_opening_only_grow() -> None:
    life = life_in(State.CLAIMING)
    assert life.claimed(4) is State.READING
    life.renewed(6)
    assert life.epoch == 6
    with pytest.raises(IllegalTransition, match="epoch 6 claimed after epoch 6"):
        life.renewed(6)
    assert life.at(State.FENCED)
    again = life_in(State.CLAIMING)
    with pytest.raises(IllegalTransition):
        again.claimed(0)


@pytest.mark.parametrize("state", [state for state in State if state not in PUBLISHES])
def test_an_epoch_is_renewed_only_while_the_shard_publishes(state: State) -> None:
    life = life_in(state)
    with pytest.raises(IllegalTransition, match=f"epoch raised in state {state.name}"):
        life.renewed(9)


def test_the_module_knows_no_loop_and_no_store() -> None:
    source = Path(state_module.__file__).read_text()
    modules = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules == {"enum", "typing"}


def test_states_and_events_are_described() -> None:
    for each in (*State, *Event):
        assert each.value.endswith(".")
