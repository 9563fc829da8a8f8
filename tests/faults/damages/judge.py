"""What a damage did, from what was acknowledged and what a server then said: a pure function."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Refused(NamedTuple):
    """An error instead of an answer."""

    text: str
    denies: bool = False  # it says that there is nothing, as if that had never been


class Verdict(StrEnum):
    """How a damage ended, from best to worst."""

    WHOLE = "whole"  # nothing that was acknowledged is missing
    HEARD = "heard"  # what is missing is named where it is missed, or in the log and by a counter
    MISSED = "missed"  # but ``talos log verify`` does not name it
    VERIFIED = "verified"  # only ``talos log verify`` names it
    UNKNOWABLE = "unknowable"  # nothing that is left proves that there was more
    UNHEARD = "unheard"


# What only a command finds that somebody has to think of has not been heard by those it concerns,
# and what that command does not find comes as a surprise after a check.
UNHEARD = frozenset((Verdict.MISSED, Verdict.VERIFIED, Verdict.UNHEARD))


@dataclass(frozen=True)
class Expected:
    """What was acknowledged before the damage."""

    messages: Mapping[Partition, Sequence[bytes]]  # by offset from 0
    facts: Mapping[str, str] = field(default_factory=dict)  # all else: rows, positions, settings
    growing: frozenset[str] = frozenset()  # topics to which a server itself adds messages


@dataclass(frozen=True)
class Observed:
    """What a server said of the damaged directory."""

    refusal: str = ""  # what it said instead of starting
    read: Mapping[Partition, Mapping[int, bytes]] = field(default_factory=dict)
    refused: Mapping[Partition, Mapping[int, Refused]] = field(default_factory=dict)  # gets
    put: Mapping[Partition, int | Refused] = field(default_factory=dict)  # the offset of one more
    facts: Mapping[str, str | Refused] = field(default_factory=dict)
    log: Sequence[str] = ()  # warnings, errors, and what follows them
    counters: Sequence[str] = ()  # those of damage that are not what they are without one
    verify: Sequence[str] = ()  # damage that the command names


@dataclass(frozen=True)
class Evidence:
    """What is known of the damage without a server."""

    names: tuple[str, ...]  # each names the damaged file to a reader
    partition_names: Mapping[Partition, tuple[str, ...]] = field(default_factory=dict)
    fact_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The rest of what is damaged ends like the file of an earlier moment.
    whole: bool = False
    # Below it something that is left proves messages; of partitions that are not listed, all.
    proven: Mapping[Partition, int] = field(default_factory=dict)
    unproven_facts: frozenset[str] = frozenset()  # that only what is damaged had


class Wrong(NamedTuple):
    """One thing that is not as it was acknowledged."""

    what: str  # missing, altered, never put, given twice, not put, fact
    text: str
    partition: Partition | None = None
    first: int = 0  # offset
    last: int = 0
    fact: str = ""  # its name


class Judgement(NamedTuple):
    """The verdict, and each wrong with what names it."""

    verdict: Verdict
    wrongs: Sequence[tuple[Wrong, Verdict, tuple[str, ...]]] = ()


# Lines of the log that report what is left out of a log or a database from now on, or a topic that
# is not served. Damage that is only refused is no such event: whoever asks for what is missing has
# to be refused, too.
LEFT_OUT = re.compile(r"-cut\b|-truncated\b|set[ -]aside|unknown-topic\b")
TRACEBACK = "Traceback (most recent call last)"
_RANK = list(Verdict)


def judge(expected: Expected, observed: Observed, evidence: Evidence) -> Judgement:
    """The worst verdict of all that is wrong."""
    case = _Case(expected, observed, evidence)
    judged = [(wrong, *case.verdict(wrong)) for wrong in case.wrongs()]
    if not judged:
        return Judgement(Verdict.WHOLE)
    worst = max((verdict for _, verdict, _ in judged), key=_RANK.index)
    return Judgement(worst, judged)


@dataclass(frozen=True)
class _Case:
    expected: Expected
    observed: Observed
    evidence: Evidence

    def wrongs(self) -> Iterator[Wrong]:
        """Everything that is not as it was, or that no server may do."""
        observed = self.observed
        said = [observed.refusal, *observed.log]
        if any(TRACEBACK in text for text in said):
            yield Wrong("traceback", "the server printed a traceback")
        if observed.refusal:
            yield Wrong("start", "the server does not start")
            return
        for partition, messages in self.expected.messages.items():
            yield from self._of_partition(partition, messages)
        for name, value in self.expected.facts.items():
            found = observed.facts.get(name, Refused("it is not there", denies=True))
            if found != value:
                yield Wrong("fact", f"{name}: {_shown(found)}, not {value}", fact=name)

    def _of_partition(self, partition: Partition, messages: Sequence[bytes]) -> Iterator[Wrong]:
        read = self.observed.read.get(partition, {})
        missing = [offset for offset in range(len(messages)) if offset not in read]
        for first, last in _ranges(missing):
            text = f"{partition}: offsets {first} to {last} of {len(messages)} are missing"
            yield Wrong("missing", text, partition, first, last)
        for offset, content in sorted(read.items()):
            if offset >= len(messages):
                if partition.topic not in self.expected.growing:
                    text = f"{partition}: offset {offset} was never put"
                    yield Wrong("never put", text, partition, offset, offset)
            elif content != messages[offset]:
                text = f"{partition}: offset {offset} has another content"
                yield Wrong("altered", text, partition, offset, offset)
        put = self.observed.put.get(partition)
        if isinstance(put, Refused):
            yield Wrong("not put", f"{partition}: no put: {put.text}", partition)
        elif put is not None and put < len(messages):
            text = f"{partition}: offset {put} is given again, {len(messages)} were"
            yield Wrong("given twice", text, partition, put, put)

    def verdict(self, wrong: Wrong) -> tuple[Verdict, tuple[str, ...]]:
        """What names this wrong, and whether that is enough."""
        heard = tuple(self._heard(wrong))
        verified = self._names(wrong, *self.observed.verify)
        if heard:
            return (Verdict.HEARD if verified else Verdict.MISSED), heard
        if self._unknowable(wrong):
            return Verdict.UNKNOWABLE, ()
        if verified and wrong.what in ("missing", "fact", "not put"):
            return Verdict.VERIFIED, ("verify",)
        return Verdict.UNHEARD, ()

    def _heard(self, wrong: Wrong) -> Iterator[str]:
        observed = self.observed
        if wrong.what == "traceback":
            return
        if observed.refusal:
            if self._names(wrong, observed.refusal):
                yield "start"
            return
        left_out = [line for line in observed.log if LEFT_OUT.search(line)]
        if observed.counters and self._names(wrong, *left_out):
            yield "log"
        if wrong.what == "missing" and self._gets_name(wrong):
            yield "get"
        if wrong.what == "not put" and self._is_named(wrong, self._put_of(wrong)):
            yield "put"
        if wrong.what == "fact":
            if self._is_named(wrong, observed.facts.get(wrong.fact)):
                yield "answer"

    def _gets_name(self, wrong: Wrong) -> bool:
        """Every get of what is missing, and at the log's end the put, too."""
        assert wrong.partition is not None
        refused = self.observed.refused.get(wrong.partition, {})
        gets = (refused.get(offset) for offset in range(wrong.first, wrong.last + 1))
        if not all(self._is_named(wrong, found) for found in gets):
            return False
        count, put = len(self.expected.messages[wrong.partition]), self._put_of(wrong)
        if wrong.last < count - 1 or put is None:
            return True
        return self._is_named(wrong, put) or (isinstance(put, int) and put >= count)

    def _put_of(self, wrong: Wrong) -> int | Refused | None:
        return None if wrong.partition is None else self.observed.put.get(wrong.partition)

    def _is_named(self, wrong: Wrong, found: object) -> bool:
        return isinstance(found, Refused) and not found.denies and self._names(wrong, found.text)

    def _names(self, wrong: Wrong, *texts: str) -> bool:
        """Whether a text names the damaged file, or what is wrong."""
        names = self.evidence.names
        if wrong.partition is not None:
            names += self.evidence.partition_names.get(wrong.partition, ())
        names += self.evidence.fact_names.get(wrong.fact, ())
        return any(name in text for name in names for text in texts)

    def _unknowable(self, wrong: Wrong) -> bool:
        evidence = self.evidence
        if not evidence.whole:
            return False
        if wrong.what == "fact":
            return wrong.fact in evidence.unproven_facts
        whats = {"missing", "given twice"}
        if wrong.partition is not None and wrong.partition.topic in self.expected.growing:
            whats.add("altered")  # the server itself has put something where messages are missing
        if wrong.partition is None or wrong.what not in whats:
            return False
        proven = evidence.proven.get(wrong.partition)
        return proven is not None and wrong.first >= proven


def _ranges(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run without a gap."""
    for _, run in groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0]):
        found = [offset for _, offset in run]
        yield found[0], found[-1]


def _shown(found: str | Refused) -> str:
    return f"refused: {found.text}" if isinstance(found, Refused) else found
