"""Whether the accelerator's codecs of Arrow columns can be tested here; imports no Arrow."""

from pathlib import Path

import opentalos

_SOURCES = Path(__file__).parents[1] / "native"
_BUILT = Path(opentalos.__path__[0]) / "sdk" / "arrow"


def _why_not(module: str, source: str) -> str:
    built, written = _BUILT / f"{module}.abi3.so", _SOURCES / source
    if not built.exists():
        return "the module is not built"
    if built.stat().st_mtime < written.stat().st_mtime:
        return f"the module is older than native/{source}"
    return ""


WHY_NO_ROWS = _why_not("_native", "rows.c")
WHY_NO_COLUMNS = _why_not("_columns", "columns.c")
