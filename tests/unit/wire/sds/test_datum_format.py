"""Columns written at once are the bytes that their structs give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.sds.test_datum import DATUMS

from opentalos.model.datum import Columns, DataType, Datum
from opentalos.wire._generated.sds import KeysOnlyEntry
from opentalos.wire.sds.datum import columns_to
from opentalos.wire.sds.datum_format import write_columns
from opentalos.wire.thrift.compact import MAP, STOP, field_head, write_struct
from opentalos.wire.thrift.error import ThriftError


@given(st.dictionaries(st.text(max_size=5), DATUMS, max_size=20))
def test_the_bytes_are_those_of_the_structs(columns: Columns) -> None:
    out = bytearray(field_head(1, MAP))
    write_columns(out, columns)
    by_structs = bytearray()
    write_struct(by_structs, KeysOnlyEntry.SPEC, KeysOnlyEntry(record=columns_to(columns)))
    assert out + STOP == by_structs


def test_a_number_out_of_its_range_is_refused() -> None:
    with pytest.raises(ThriftError):
        write_columns(bytearray(), {"n": Datum(DataType.INT16, 1 << 15)})
