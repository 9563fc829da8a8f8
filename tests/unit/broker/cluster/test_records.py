"""Control records fit into their store, also for the largest topics."""

from opentalos.broker.cluster.records import AssignmentRecord, decode_record, encode_record
from opentalos.model.limits import PARTITIONS_MAX
from opentalos.ports.meta_store import VALUE_BYTES_MAX

LONGEST_NAME = 19  # that the configuration accepts with the largest topics


def test_an_assignment_of_the_largest_topic_fits_while_all_of_it_is_lent() -> None:
    names = [f"{letter * LONGEST_NAME}" for letter in "abcd"]
    record = AssignmentRecord(
        number=1 << 31,
        owners=tuple(names[number % 4] for number in range(PARTITIONS_MAX)),
        moved_from={str(number): names[0] for number in range(9_000, 9_064)},
        lent={str(number): names[1] for number in range(PARTITIONS_MAX)},
    )
    value = encode_record(record)
    assert len(value) <= VALUE_BYTES_MAX
    assert decode_record(AssignmentRecord, value) == record
