"""What a PacedTransport writes is whole and in order, and what it keeps is known."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from opentalos.gateway.http.fairness.pacing import PIECE_BYTES, PacedTransport
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.tls_connection import certificate_of
from opentalos.model.identity import PeerCertificate

SIZES = st.sampled_from([0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES])


class Loop(asyncio.Transport):
    """The loop's transport: full after so many bytes, until it is marked as drained."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.held, self.written = room, 0, bytearray()
        self.full = self.closed = self.aborted = False
        turns = Turns(lambda: 0.0)
        self.paced = PacedTransport(self, turns, "", self.note_paused, self.note_resumed)
        self.pauses: list[bool] = []

    def note_paused(self) -> None:
        self.pauses.append(True)

    def note_resumed(self) -> None:
        self.pauses.append(False)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.held

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        assert len(data) <= PIECE_BYTES
        self.written += data
        self.held += len(data)
        if self.held > self.room and not self.full:
            self.full = True
            self.paced.loop_full(True)

    def send(self) -> None:
        self.held = 0
        if self.full:
            self.full = False
            self.paced.loop_full(False)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed


@given(st.lists(st.one_of(SIZES, st.just(-1)), max_size=12), st.sampled_from([0, 10, PIECE_BYTES]))
def test_bytes_arrive_whole_and_in_order(steps: list[int], room: int) -> None:
    loop, sent, number = Loop(room), bytearray(), 0
    for size in steps:
        if size < 0:
            loop.send()
        else:
            number += 1
            data = bytes([number]) * size
            sent += data
            loop.paced.writelines([data[:3], data[3:]])
        assert loop.paced.get_write_buffer_size() == len(sent) - len(loop.written) + loop.held
        # Alternating pause and resume, and never left paused with nothing to wait for.
        assert loop.pauses == [not index % 2 for index in range(len(loop.pauses))]
        assert bool(loop.pauses and loop.pauses[-1]) is (loop.full or len(loop.written) < len(sent))
    loop.paced.close()
    assert loop.paced.is_closing()
    while not loop.closed:
        loop.send()
    assert loop.written == sent


def test_an_abort_forgets_what_waits() -> None:
    loop = Loop(0)
    loop.paced.write(b"x" * 3 * PIECE_BYTES)
    loop.paced.abort()
    assert loop.aborted
    assert loop.paced.get_write_buffer_size() == loop.held
    loop.send()
    assert len(loop.written) == PIECE_BYTES


def test_a_verified_certificate_has_its_names_and_its_end() -> None:
    found = {
        "subject": ((("organizationName", "Example"),), (("commonName", "alice"),)),
        "subjectAltName": (("DNS", "a.example"), ("IP Address", "::1"), ("URI", "spiffe://x/y")),
        "notAfter": "Jan  1 00:00:00 2030 GMT",
    }
    names = (("dns", "a.example"), ("uri", "spiffe://x/y"), ("cn", "alice"))
    assert certificate_of(found) == PeerCertificate(names, 1_893_456_000.0)
    assert certificate_of({}) is None
    assert certificate_of(None) is None
