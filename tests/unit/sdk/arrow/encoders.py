"""The encoders that make blocks of Arrow columns here."""

from types import ModuleType

from tests.native_encoder import WHY_NO_ROWS

from opentalos.sdk.arrow import native_rows

# Values of native_rows.NATIVE; None: numpy and Arrow.
ENCODERS: tuple[ModuleType | None, ...] = (None,) if WHY_NO_ROWS else (None, native_rows.NATIVE)
