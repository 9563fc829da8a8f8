"""Fuzzing of every parser: any bytes are parsed, or refused with the parser's own error.

``OPENTALOS_FUZZ_S`` seconds in all, shared by the parsers: 20, with ``make faults`` ten minutes.
"""

import itertools
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.faults.parsers import Parser, parsers

FUZZ_S, FULL_FUZZ_S = 20.0, 600.0
EXAMPLES = 100  # of a round; the time is read between rounds
BYTES_MAX = 400
NAMES = [parser.name for parser in parsers(Path())]

EDGES = st.sampled_from(
    (b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 9 + b"\x01", b"[" * 50,
     b'{"1":' * 20, b"\r\n", b"\\u", b"1e999", b"-1", b"99999999999999999999", b"\0" * 64)
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, samples: tuple[bytes, ...]) -> bytes:
    """A valid text with parts replaced, removed, repeated or inserted."""
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        part = draw(st.binary(max_size=8) | EDGES | st.just(bytes(data[start:end]) * 3))
        data[start:end] = part
    return bytes(data)


def inputs(parser: Parser) -> st.SearchStrategy[bytes]:
    random = st.binary(max_size=BYTES_MAX)
    return random | damaged(parser.samples) if parser.samples else random


def check(parser: Parser, data: bytes) -> None:
    text = "parsed"
    try:
        parser.parse(data)
    except parser.errors as error:
        text = str(error)
    assert text, "an error without a text"


def fuzz(parser: Parser, seconds: float, first_seed: int) -> int:
    """Rounds until the time is over, at least one; the number of inputs."""
    began_s = time.monotonic()
    for number in itertools.count(first_seed):

        @seed(number)
        @settings(
            max_examples=EXAMPLES, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(inputs(parser))
        def round_of(data: bytes) -> None:
            check(parser, data)

        round_of()
        spent_s = time.monotonic() - began_s
        if spent_s >= seconds:
            return (number - first_seed + 1) * EXAMPLES
    raise AssertionError


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_parsed_or_refused(tmp_path: Path, full: bool, name: str) -> None:
    parser = next(each for each in parsers(tmp_path) if each.name == name)
    for sample in parser.samples:
        check(parser, sample)
    # Each long run has other inputs; a failure shows its input, and its seed.
    first_seed = time.time_ns() % (1 << 30) if full else 0
    seconds = float(os.environ.get("OPENTALOS_FUZZ_S", FULL_FUZZ_S if full else FUZZ_S))
    count = fuzz(parser, seconds / len(NAMES), first_seed)
    sys.stdout.write(f"\n| fuzzed {name}: {count:,} inputs from seed {first_seed}\n")
