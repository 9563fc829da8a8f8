"""The encoders and decoders of Arrow columns here."""

from types import ModuleType

from tests.native_encoder import WHY_NO_COLUMNS, WHY_NO_ROWS

from opentalos.sdk.arrow import native_columns, native_rows

# Values of native_rows.NATIVE and native_columns.NATIVE; None: numpy and Arrow.
ENCODERS: tuple[ModuleType | None, ...] = (None,) if WHY_NO_ROWS else (None, native_rows.NATIVE)
DECODERS: tuple[ModuleType | None, ...] = (
    (None,) if WHY_NO_COLUMNS else (None, native_columns.NATIVE)
)
