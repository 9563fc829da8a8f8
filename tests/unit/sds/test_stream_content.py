from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.table import KeyPart, StreamSpec, TableSchema
from opentalos.sds.stream_content import StreamContent, stream_contents


def test_enabled_streams_list_their_columns() -> None:
    schema = TableSchema(
        primary=(KeyPart("k"),),
        attributes={"k": DataType.INT8, "a": DataType.INT8},
        streams={
            "all": StreamSpec(),
            "some": StreamSpec(view=StreamView.RECORD_IMAGE, attributes=("a",)),
            "off": StreamSpec(enabled=False),
        },
    )
    assert list(stream_contents(schema)) == [
        StreamContent("all", StreamView.MUTATE_LOG, None),
        StreamContent("some", StreamView.RECORD_IMAGE, frozenset({"a"})),
    ]
