"""The judge of ``tests/faults/damage.py``: a loss in silence never passes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.faults.damages.judge import (
    UNHEARD,
    Evidence,
    Expected,
    Observed,
    Partition,
    Refused,
    Verdict,
    judge,
)

A, B = Partition("a", 0), Partition("b", 0)
MESSAGES = (b"0", b"1", b"2", b"3")
EXPECTED = Expected({A: MESSAGES, B: MESSAGES}, {"row 1": "new"}, frozenset("b"))
FILE = "uuid-a/0/000.log"
EVIDENCE = Evidence((FILE,), {A: ("uuid-a partition 0",), B: ("uuid-b partition 0",)})
NAMED = Refused(f"{FILE} position 64: the block fails its check")
OUT_OF_RANGE = Refused("uuid-a partition 0: offset 2 is out of range", denies=True)
CUT = f"log-cut: {FILE}: 3 messages are left out"


FOUND: dict[str, Any] = {"verify": [f"damage: {FILE}"]}


def all_read(count: int = len(MESSAGES)) -> dict[Partition, Mapping[int, bytes]]:
    """Of A as many, of B all."""
    return {A: dict(enumerate(MESSAGES[:count])), B: dict(enumerate(MESSAGES))}


def observed(**changed: Any) -> Observed:
    """A server that has everything, but for what is changed."""
    usual: dict[str, Any] = {
        "read": all_read(),
        "put": {A: 4, B: 4},
        "facts": {"row 1": "new"},
    }
    return Observed(**{**usual, **changed})


def lost(**changed: Any) -> Observed:
    """The last two messages of A are missing, and its next put is refused by name."""
    return observed(**{"read": all_read(2), "put": {A: NAMED, B: 4}, **changed})


def verdict(seen: Observed, evidence: Evidence = EVIDENCE) -> Verdict:
    return judge(EXPECTED, seen, evidence).verdict


def test_what_is_all_there_is_whole() -> None:
    assert verdict(observed()) is Verdict.WHOLE


def test_a_silent_loss_is_unheard() -> None:
    assert verdict(lost(put={A: 4, B: 4})) is Verdict.UNHEARD
    assert verdict(lost()) is Verdict.UNHEARD, "a get that finds nothing is silent"


def test_an_offset_given_twice_is_unheard() -> None:
    assert verdict(observed(put={A: 3, B: 4})) is Verdict.UNHEARD
    refused = {A: {2: NAMED, 3: NAMED}}
    assert verdict(lost(refused=refused, put={A: 2, B: 4})) is Verdict.UNHEARD


def test_an_offset_given_twice_is_not_made_good_by_verify() -> None:
    seen = observed(put={A: 3, B: 4}, verify=[f"damage: {FILE}"])
    assert verdict(seen) is Verdict.UNHEARD


def test_a_loss_that_every_get_and_the_put_name_is_heard() -> None:
    assert verdict(lost(refused={A: {2: NAMED, 3: NAMED}}, **FOUND)) is Verdict.HEARD
    assert verdict(lost(refused={A: {2: NAMED}})) is Verdict.UNHEARD


def test_behind_a_loss_in_the_middle_puts_may_be_taken() -> None:
    read = {A: {0: b"0", 3: b"3"}, B: dict(enumerate(MESSAGES))}
    refused = {A: {1: NAMED, 2: NAMED}}
    assert verdict(observed(read=read, refused=refused, **FOUND)) is Verdict.HEARD


@pytest.mark.parametrize("said", [OUT_OF_RANGE, Refused("try again later")])
def test_an_error_that_denies_or_does_not_name_is_silent(said: Refused) -> None:
    assert verdict(lost(refused={A: {2: said, 3: said}})) is Verdict.UNHEARD


def test_a_cut_is_heard_if_it_is_logged_by_name_and_counted() -> None:
    cut = {"put": {A: 2, B: 4}, "log": [CUT], "counters": ["log_tail_cuts_total"]}
    assert verdict(lost(**cut, **FOUND)) is Verdict.HEARD
    aside = f"log-set-aside: {FILE}: nothing proves that its messages were acknowledged"
    assert verdict(lost(**{**cut, "log": [aside]}, **FOUND)) is Verdict.HEARD
    assert verdict(lost(**{**cut, "counters": []})) is Verdict.UNHEARD
    assert verdict(lost(**{**cut, "log": [CUT.replace("uuid-a", "uuid-b")]})) is Verdict.UNHEARD
    warned = f"warning: {FILE} is damaged"
    assert verdict(lost(**{**cut, "log": [warned]})) is Verdict.UNHEARD, "nothing was left out"


def test_what_only_verify_names_is_a_verdict_of_its_own() -> None:
    assert verdict(lost(verify=[f"damage: {FILE}"])) is Verdict.VERIFIED
    assert verdict(lost(verify=["damage: another file"])) is Verdict.UNHEARD


def test_what_verify_does_not_name_is_missed_although_it_is_heard() -> None:
    refused = {A: {2: NAMED, 3: NAMED}}
    assert verdict(lost(refused=refused, verify=["damage: another file"])) is Verdict.MISSED
    assert verdict(Observed(refusal=f"talos: {FILE} is damaged")) is Verdict.MISSED
    assert Verdict.MISSED in UNHEARD


@pytest.mark.parametrize(
    ("whole", "proven", "expected"),
    [
        (True, 2, Verdict.UNKNOWABLE),
        (True, 3, Verdict.UNHEARD),  # a witness for the message at 2 is left
        (False, 2, Verdict.UNHEARD),  # the rest of the file ends as no crash leaves it
    ],
)
def test_only_what_nothing_proves_is_unknowable(
    whole: bool, proven: int, expected: Verdict
) -> None:
    evidence = replace(EVIDENCE, whole=whole, proven={A: proven, B: 0})
    assert verdict(lost(put={A: 2, B: 4}), evidence) is expected


def test_a_partition_of_which_nothing_is_known_excuses_nothing() -> None:
    evidence = replace(EVIDENCE, whole=True)
    assert verdict(lost(put={A: 2, B: 4}), evidence) is Verdict.UNHEARD


def test_a_refused_start_must_name_the_file() -> None:
    assert verdict(Observed(refusal=f"talos: {FILE} is damaged", **FOUND)) is Verdict.HEARD
    assert verdict(Observed(refusal="talos: cannot start")) is Verdict.UNHEARD
    crash = f"Traceback (most recent call last):\nin {FILE}"
    assert verdict(Observed(refusal=crash)) is Verdict.UNHEARD


def test_another_content_is_unheard_whatever_verify_says() -> None:
    read = {A: {**all_read()[A], 1: b"?"}, B: all_read()[B]}
    assert verdict(observed(read=read, verify=[f"damage: {FILE}"])) is Verdict.UNHEARD


def test_a_topic_without_a_record_is_heard_of_by_its_uuid() -> None:
    evidence = replace(EVIDENCE, fact_names={"row 1": ("uuid-c",)})
    said = {"log": ["unknown-topic: uuid-c has no record"], "counters": ["unknown_topics"]}
    gone = {"row 1": Refused("it does not exist", denies=True)}
    found: dict[str, Any] = {"verify": ["damage: topic uuid-c has no record"]}
    assert verdict(observed(facts=gone, **said, **found), evidence) is Verdict.HEARD
    assert verdict(observed(facts=gone), evidence) is Verdict.UNHEARD


def test_where_messages_are_lost_unknowably_the_server_itself_puts_others() -> None:
    read = {A: all_read()[A], B: {0: b"0", 1: b"1", 2: b"?"}}
    evidence = replace(EVIDENCE, whole=True, proven={A: 4, B: 2})
    assert verdict(observed(read=read), evidence) is Verdict.UNKNOWABLE
    assert verdict(observed(read=read), replace(evidence, proven={A: 4, B: 3})) is Verdict.UNHEARD
    clients = {A: {0: b"0", 1: b"1", 2: b"?"}, B: all_read()[B]}
    evidence = replace(EVIDENCE, whole=True, proven={A: 2, B: 4})
    assert verdict(observed(read=clients), evidence) is Verdict.UNHEARD


def test_only_a_topic_of_the_server_itself_may_have_more() -> None:
    more = dict(enumerate((*MESSAGES, b"4")))
    assert verdict(observed(read={A: all_read()[A], B: more})) is Verdict.WHOLE
    assert verdict(observed(read={A: more, B: all_read()[B]})) is Verdict.UNHEARD


def test_an_older_row_is_unheard_unless_only_the_damaged_file_had_the_newer_one() -> None:
    seen = observed(facts={"row 1": "old"})
    assert verdict(seen) is Verdict.UNHEARD
    evidence = Evidence(("rows.sqlite",), whole=True, unproven_facts=frozenset({"row 1"}))
    assert verdict(seen, evidence) is Verdict.UNKNOWABLE
    assert verdict(observed(facts={}), evidence) is Verdict.UNKNOWABLE
    refused = {"row 1": Refused("rows.sqlite is damaged")}
    found = ["damage: rows.sqlite"]
    assert verdict(observed(facts=refused, verify=found), evidence) is Verdict.HEARD


def test_the_worst_decides() -> None:
    heard = lost(refused={A: {2: NAMED, 3: NAMED}}, facts={"row 1": "old"})
    assert verdict(heard) is Verdict.UNHEARD
