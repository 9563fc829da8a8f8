"""Which files are the log: pieces of made-up logs, some merged, some orphans, some missing."""

from collections.abc import Mapping

from opentalos.log.manifest.chain import Piece, Place, Places, chain_to, last_of
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.model.message import Durability

ENDS: Mapping[int, Place] = {offset: Place(64 + offset, offset) for offset in range(100)}


def piece(base: int, end: int, epoch: int = 1, *, number: int = 0, flushed: bool = False) -> Piece:
    """All of it was committed, and a block begins at each offset."""
    durability = Durability.FLUSHED if flushed else Durability.SYNCED
    return Piece(
        Segment(base, epoch, number=number), base, end, Place(64 + end, end), durability, ENDS
    )


def merged(base: int, end: int, epoch: int, number: int = 7) -> Piece:
    return piece(base, end, epoch, number=number, flushed=True)


def ranges(chain: list[Segment]) -> list[tuple[int, int | None, int]]:
    return [(segment.base_offset, segment.next_offset, segment.epoch) for segment in chain]


def test_a_merged_file_of_a_newer_epoch_is_not_the_last_segment() -> None:
    originals = [piece(0, 5), piece(5, 10), piece(10, 15)]
    whole = [*originals, merged(0, 10, 4)]
    assert last_of(whole) == originals[-1]
    chain = chain_to(originals[-1], whole, Manifest())
    assert ranges(chain) == [(0, 10, 4), (10, None, 1)]
    without = [originals[-1], merged(0, 10, 4)]
    assert ranges(chain_to(last_of(without), without, Manifest())) == ranges(chain)


def test_a_merged_file_is_the_last_segment_if_nothing_else_reaches_its_end() -> None:
    found = [piece(0, 5), merged(0, 10, 4), merged(10, 20, 3, 9)]
    assert last_of(found) == found[2]
    assert ranges(chain_to(found[2], found, Manifest())) == [(0, 10, 4), (10, None, 3)]


def test_a_rolled_file_of_a_flushed_topic_is_the_last_segment() -> None:
    found = [
        piece(0, 5, flushed=True),
        piece(5, 9, number=3, flushed=True),
        piece(9, 12, number=4, flushed=True),
    ]
    assert last_of(found) == found[2]
    recovered = piece(8, 12, 2, flushed=True)  # of an opening that copied the tail
    assert last_of([*found, recovered]) == recovered


def test_what_the_manifest_names_gives_way_to_a_chain_without_a_gap() -> None:
    """Nothing ends where the named segment begins."""
    named = Segment(5, 1, 10, 74, 10)
    one_block = merged(0, 10, 2)._replace(places={})
    found = [one_block, piece(5, 10), piece(10, 12)]
    chain = chain_to(found[-1], found, Manifest(segments=(Segment(0, 1, 5, 69, 5), named)))
    assert ranges(chain) == [(0, 10, 2), (10, None, 1)]


def test_the_manifest_decides_between_chains_that_begin_at_the_same_offset() -> None:
    named = Segment(0, 1, 10, 70, 9, counted_ms=77)
    found = [merged(0, 10, 2), piece(0, 10), piece(10, 12)]
    assert chain_to(found[-1], found, Manifest())[0].epoch == 2
    assert chain_to(found[-1], found, Manifest(segments=(named,)))[0] == named


def test_a_segment_does_not_end_before_what_it_proves() -> None:
    proves = piece(0, 10)._replace(committed=9)
    found = [proves, piece(8, 12, 2)]
    assert ranges(chain_to(found[-1], found, Manifest())) == [(8, None, 2)]
    assert ranges(chain_to(found[-1], [proves._replace(committed=8), found[1]], Manifest()))[0] == (
        *(0, 8),
        1,
    )


def test_a_damaged_segment_that_the_manifest_names_is_better_than_a_gap() -> None:
    hurt = Segment(5, 1, 10, 74, 10)
    found = [piece(0, 5), piece(10, 12)]
    chain = chain_to(found[-1], found, Manifest(), [hurt])
    assert ranges(chain) == [(0, 5, 1), (5, 10, 1), (10, None, 1)]
    whole = [*found, merged(0, 10, 4)]
    assert ranges(chain_to(found[-1], whole, Manifest(), [hurt])) == [(0, 10, 4), (10, None, 1)]


def test_nothing_below_the_start_is_taken_again() -> None:
    found = [piece(0, 5), piece(5, 10), piece(10, 12)]
    assert ranges(chain_to(found[-1], found, Manifest(start=5))) == [(5, 10, 1), (10, None, 1)]


def test_many_choices_need_no_search() -> None:
    """Each range three times: 3**30 chains."""
    found = [piece(base, base + 1, epoch) for base in range(1, 31) for epoch in (1, 2, 3)]
    chain = chain_to(last_of(found), found, Manifest())
    assert ranges(chain)[0] == (1, 2, 3)
    assert len(chain) == 30


def test_only_offsets_where_a_file_begins_are_kept() -> None:
    places = Places(frozenset({3, 5}))
    for offset in (0, 1, 3, 3, 4):
        places.add(offset, 64 + offset, 100 + offset)
    assert places.found == {3: Place(67, 101)}
    assert not places.offsets
