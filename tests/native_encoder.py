"""Whether the accelerator's encoder of Arrow columns can be tested here; imports no Arrow."""

from pathlib import Path

import opentalos

_SOURCE = Path(__file__).parents[1] / "native" / "rows.c"
_BUILT = Path(opentalos.__path__[0]) / "sdk" / "arrow" / "_native.abi3.so"


def _why_not() -> str:
    if not _BUILT.exists():
        return "the module is not built"
    if _BUILT.stat().st_mtime < _SOURCE.stat().st_mtime:
        return "the module is older than native/rows.c"
    return ""


WHY_NO_ROWS = _why_not()
