"""Values of a long call are checked in pieces, with the same results as where they are used."""

import pytest

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ValidationFailed
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, from_struct, to_struct
from opentalos.wire.sds.long_call import STEPS, check_values
from opentalos.wire.thrift.message import Call

BATCH = sds.SERVICES["TableService"].methods["batch"]
WRONG = sds.Datum(type=sds.DataType.INT8, value=sds.Value(int8Value=1_000))


def put_of(**columns: sds.Datum) -> sds.PutRequest:
    condition = sds.SimpleCondition(field="n", operator=sds.OperatorType.EQUAL, value=columns["n"])
    return sds.PutRequest(tableName="t", record=columns, condition=condition)


def call_of(*puts: sds.PutRequest) -> Call:
    items = [
        sds.BatchRequestItem(action=sds.BatchOp.PUT, request=sds.Request(putRequest=put))
        for put in puts
    ]
    return Call(BATCH, 7, (sds.BatchRequest(items=items),))


def test_values_are_converted_once_and_the_rest_stays() -> None:
    numbers = Datum(DataType.INT64_SET, tuple(range(2_000)))
    call = check_values(call_of(put_of(n=to_struct(numbers))), lambda: None)
    (item,) = call.request.items
    put = item.request.putRequest
    assert (item.action, put.tableName) == (sds.BatchOp.PUT, "t")
    assert columns_from(put.record) == {"n": numbers}
    assert columns_from(put.record) is put.record
    assert from_struct(put.condition.value) == numbers


def test_a_faulty_value_fails_where_it_is_used() -> None:
    good = put_of(n=to_struct(Datum(DataType.INT64, 1)))
    call = check_values(call_of(put_of(n=WRONG), good), lambda: None)
    bad, fine = (item.request.putRequest for item in call.request.items)
    assert columns_from(fine.record) == {"n": Datum(DataType.INT64, 1)}
    with pytest.raises(ValidationFailed, match="column 'n': 1000 does not fit INT8"):
        columns_from(bad.record)
    with pytest.raises(ValidationFailed, match="1000 does not fit INT8"):
        from_struct(bad.condition.value)


def test_many_items_have_many_pauses() -> None:
    pauses: list[None] = []
    puts = [put_of(n=to_struct(Datum(DataType.INT64, number))) for number in range(2_000)]
    check_values(call_of(*puts), lambda: pauses.append(None))
    assert len(pauses) >= 2_000 // STEPS
