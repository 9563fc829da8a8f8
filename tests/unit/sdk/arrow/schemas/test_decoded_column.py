"""What becomes of values that can and cannot be decoded."""

from decimal import Decimal
from typing import Any

import pyarrow as pa

from opentalos.sdk.arrow.schemas.decoded_column import decoded_column


class Digits:
    """Decodes decimal digits; what has other bytes is damaged."""

    type = pa.decimal128(4, 1)

    def decode(self, value: bytes) -> Any:
        if not value.isdigit():
            raise ValueError("no digits" * 100)
        return Decimal(int(value))


def test_a_value_that_cannot_be_decoded_is_null_with_a_reason() -> None:
    values = pa.array([b"12", b"x", None, b"12345678", b"7"], pa.binary())
    column, reasons = decoded_column(Digits(), values, 5)
    assert column.type == Digits.type
    assert column.to_pylist() == [Decimal(12), None, None, None, Decimal(7)]
    why = reasons.to_pylist()
    assert why[0] is None
    assert why[1].startswith("no digits")
    assert len(why[1]) == 200
    assert why[2] == "there is no value"
    assert why[3] == "the value has 8 bytes, at most 5 are decoded"
    assert why[4] is None


def test_a_value_that_does_not_fit_the_type_spoils_no_other() -> None:
    column, reasons = decoded_column(Digits(), pa.array([b"999", b"99999", b"1"]), 100)
    assert column.to_pylist() == [Decimal(999), None, Decimal(1)]
    first, second, third = reasons.to_pylist()
    assert (first, third) == (None, None)
    assert second.startswith("does not fit decimal128(4, 1): ")


def test_no_values_are_an_empty_column() -> None:
    column, reasons = decoded_column(Digits(), pa.array([], pa.binary()), 100)
    assert (len(column), len(reasons)) == (0, 0)
    assert (column.type, reasons.type) == (Digits.type, pa.string())
