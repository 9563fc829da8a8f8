"""Blocks of messages as Arrow tables and back, without an object per message.

Needs the extra ``arrow``: importing this package loads pyarrow and numpy. ``decode_avro`` needs the
extra ``avro``, ``decode_protobuf`` the extra ``protobuf``. Columns of a decoded table are those of
``SCHEMA``. This list is the public interface.
"""

from opentalos.sdk.arrow.decode import SCHEMA, decode_batches, decode_table, rows_before
from opentalos.sdk.arrow.encode import encode_batch
from opentalos.sdk.arrow.json_values import decode_json
from opentalos.sdk.arrow.schemas.avro_values import decode_avro
from opentalos.sdk.arrow.schemas.protobuf_values import decode_protobuf

__all__ = [
    "SCHEMA",
    "decode_avro",
    "decode_batches",
    "decode_json",
    "decode_protobuf",
    "decode_table",
    "encode_batch",
    "rows_before",
]
