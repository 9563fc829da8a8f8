from tests.unit.sds.bed import SCHEMA

from opentalos.model.datum import DataType
from opentalos.model.mutation import Operation
from opentalos.model.table import IndexMode, KeyPart, LocalIndex, TableSchema
from opentalos.sds.quota_units import GET, Units, of_mutation, of_scanned


def test_calls_take_the_units_of_the_protocol() -> None:
    assert GET == Units(1, 0)
    assert of_mutation(SCHEMA, Operation.PUT) == Units(1, 1)  # one of its indexes is eager
    assert of_mutation(SCHEMA, Operation.REMOVE) == Units(1, 1)
    assert of_mutation(SCHEMA, Operation.INCREMENT) == Units(1, 1)
    plain = TableSchema(primary=SCHEMA.primary, attributes=SCHEMA.attributes)
    assert of_mutation(plain, Operation.PUT) == Units(0, 1)


def test_a_lazy_index_is_looked_up_for_each_record() -> None:
    lazy = TableSchema(
        group=(KeyPart("g"),),
        primary=(KeyPart("k"),),
        attributes=dict.fromkeys("gkc", DataType.INT8),
        indexes={"by_c": LocalIndex(columns=(KeyPart("c"),), mode=IndexMode.LAZY)},
    )
    assert of_scanned(lazy, "by_c") == Units(2, 0)
    assert of_scanned(lazy, None) == Units(1, 0)
    assert of_scanned(SCHEMA, "by_city") == Units(1, 0)
