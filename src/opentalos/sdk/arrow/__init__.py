"""Blocks of messages as Arrow tables and back, without an object per message.

Needs the extra ``arrow``: importing this package loads pyarrow and numpy. Columns of a decoded
table are those of ``SCHEMA``. This list is the public interface.
"""

from opentalos.sdk.arrow.decode import SCHEMA, decode_batches, decode_table, rows_before
from opentalos.sdk.arrow.encode import encode_batch
from opentalos.sdk.arrow.json_values import decode_json

__all__ = [
    "SCHEMA",
    "decode_batches",
    "decode_json",
    "decode_table",
    "encode_batch",
    "rows_before",
]
