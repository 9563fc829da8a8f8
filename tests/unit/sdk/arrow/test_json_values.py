"""JSON values by schema fingerprint."""

import pyarrow as pa
import pytest
from tests.unit.sdk.arrow.fetched_table import table

from opentalos.model.errors import BadRequest
from opentalos.sdk.arrow import decode_json

V1 = pa.schema([("user", pa.string()), ("price", pa.float64())])
V2 = pa.schema([("user", pa.string()), ("tags", pa.list_(pa.string()))])


def test_records_are_decoded_by_the_schema_of_their_fingerprint() -> None:
    rows = table(
        (b'{"user": "a", "price": 1.5}', "v1"),
        (b'{\n "user": "b",\n "tags": ["x"]}', "v2"),
        (b'{"price": 2, "colour": "red"}', "v1"),
        (b'{"user": "d"}', None),
    )
    found = decode_json(rows, {"v1": V1, "v2": V2, None: V1, "never": V2})
    assert list(found) == [None, "v1", "v2"]
    assert found["v1"].to_pylist() == [
        {"partition": 1, "offset": 10, "user": "a", "price": 1.5},
        {"partition": 1, "offset": 12, "user": None, "price": 2.0},
    ]
    assert found["v2"].to_pylist() == [{"partition": 1, "offset": 11, "user": "b", "tags": ["x"]}]
    assert found[None]["offset"].to_pylist() == [13]
    assert decode_json(table(), {}) == {}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(b"{}", "v9"), (b"{}", None)], "no schema for the fingerprint none, v9"),
        ([(b"{}", "v1"), (b"{", "v1")], r"the value at \[1\] offset 11 is not JSON"),
        ([(b"", "v1")], r"offset 10 is not JSON"),
        ([(b"[1]", "v1")], r"offset 10 is JSON, but not an object"),
        ([(b"{}", "v1"), (b'{"price": "x"}', "v1")], "offset 11 does not fit its schema"),
        ([(b"{}", "bad")], "a schema has the field offset"),
    ],
)
def test_a_value_that_cannot_be_decoded_is_named(
    rows: list[tuple[bytes, str | None]], says: str
) -> None:
    with pytest.raises(BadRequest, match=says):
        decode_json(table(*rows), {"v1": V1, "bad": pa.schema([("offset", pa.int64())])})
