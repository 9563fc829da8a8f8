"""The compiled parts: refused with a reason, or built for every later Python."""

import sys
from pathlib import Path

import pytest
from scripts import build_accelerator as script
from scripts.build_accelerator import (
    COMMITS,
    Built,
    CannotBuild,
    Missing,
    build_parts,
    find_tools,
)
from tests.waiting import completed

from opentalos.adapters.local import native_crew
from opentalos.sdk.arrow import native_columns, native_rows

try:
    TOOLS = bool(find_tools())
except Missing:
    TOOLS = False
TRIED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location(sys.argv[2], sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.INTERFACE, module."""


@pytest.mark.parametrize("name", ["no-such-compiler", "false"])
def test_without_a_working_compiler_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("CC", name)
    with pytest.raises(CannotBuild, match=name):
        build_parts(tmp_path)
    monkeypatch.setattr(sys, "argv", ["build_accelerator.py"])
    with pytest.raises(SystemExit, match=name):
        script.main()


def test_if_possible_says_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(sys, "argv", ["build_accelerator.py", "--if-possible"])
    script.main()
    assert "not built, Python's threads are tested alone" in capsys.readouterr().out


def test_a_source_that_does_not_compile_fails_also_if_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "find_tools", lambda: (["false"], tmp_path))
    monkeypatch.setattr(sys, "argv", ["build_accelerator.py", "--if-possible"])
    with pytest.raises(SystemExit, match=r"cannot build commits\.c"):
        script.main()


def test_both_name_one_interface() -> None:
    assert f"#define INTERFACE {native_crew.INTERFACE} " in COMMITS.read_text()


if TOOLS:  # also if the module is not built: it may be this source that cannot be

    def test_it_builds_without_a_warning_and_loads(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CFLAGS", "-Werror")
        commits, rows, columns, records, reads = build_parts(tmp_path)
        assert reads.module == "opentalos/adapters/local/_reads.abi3.so"
        assert records.module == "opentalos/wire/message/_records.abi3.so"
        module = "opentalos/adapters/local/_native.abi3.so"
        assert commits == Built(tmp_path / "commits" / "_native.abi3.so", module, abi3=True)
        assert rows.module == "opentalos/sdk/arrow/_native.abi3.so"
        assert columns.module == "opentalos/sdk/arrow/_columns.abi3.so"
        for built, program, shown in (
            (commits, TRIED + "Pool(1, 0).reap())", f"{native_crew.INTERFACE} []\n"),
            (rows, TRIED + "Rows((), None))", f"{native_rows.INTERFACE} <_native.Rows"),
            (columns, TRIED + "decode(((b'V', 1, 0),)))", f"{native_columns.INTERFACE} None\n"),
        ):
            name = built.file.name.partition(".")[0]
            command = [sys.executable, "-c", program, str(built.file), name]
            done = completed(command)
            assert done.stdout.replace("opentalos.sdk.arrow.", "").startswith(shown), done.stdout
            assert not done.stderr
