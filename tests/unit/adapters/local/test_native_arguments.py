"""No argument makes the accelerator's commits and cached reads leave their buffers, or overflow.

What is refused is seen here; the rest by ``make sanitize``.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.accelerator import NATIVE

CONTENT = bytes(range(256)) * 40
EDGES = (0, 1, 4095, 4096, 4097, 10_239, 10_240, 2**31, 2**32, 2**62, 2**63 - 4096, 2**63 - 1)
NUMBERS = st.sampled_from([*EDGES, *(-number for number in EDGES)]) | st.integers(0, 12_000)

if NATIVE is not None:
    # Both are built by the same command.
    from opentalos.adapters.local._reads import read_cached

    def test_a_commit_that_no_file_can_hold_is_refused() -> None:
        assert NATIVE is not None
        pool, held = NATIVE.Pool(1, 1 << 16), bytearray(b"abc")
        for position in (2**63 - 1, 2**63 - 3):
            with pytest.raises(ValueError, match="beyond every file"):
                pool.submit("token", 0, [held], position, True, None)
            held.append(1)
            held.pop()
        with pytest.raises(OverflowError):
            pool.submit("token", 0, [held], 2**63, True, None)
        pool.submit("token", 0, [held], 2**63 - 4, True, None)
        assert pool.withdraw() == "token"
        assert pool.withdraw() is None

    @settings(
        max_examples=200,
        deadline=None,
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
        ],
    )
    @given(count=NUMBERS, position=NUMBERS)
    def test_a_cached_read_gives_what_the_file_has_there_or_nothing(
        tmp_path: Path, count: int, position: int
    ) -> None:
        path = tmp_path / "file"
        if not path.exists():
            path.write_bytes(CONTENT)
        fd = os.open(path, os.O_RDONLY)
        try:
            found = read_cached(fd, count, position)
        finally:
            os.close(fd)
        assert found is None or found == CONTENT[position : position + count]
        assert found is None or len(found) == count
