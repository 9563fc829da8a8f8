"""What the sanitizers must see, on a small module: a byte too far, an overflow, a race."""

import os
import sys
from pathlib import Path

import psutil
import pytest
from scripts import sanitize as script
from scripts.build_accelerator import CannotBuild, Missing, compile_source
from scripts.sanitize import (
    LEFT_OUT,
    MODULES,
    MUTANTS,
    POOL,
    ROOT,
    TESTED_BY,
    Finding,
    Tools,
    build_driver,
    check_mutant,
    environment_of,
    find_sanitizers,
    run,
    run_instrumented,
)

# Each function does what it should with a small argument, and is wrong with a larger one.
BROKEN = """
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdlib.h>

/* Zero bytes of a new buffer of eight. */
static PyObject *fill(PyObject *Py_UNUSED(module), PyObject *given)
{
    long count = PyLong_AsLong(given);
    volatile size_t eight = 8; /* unknown to the compiler */
    volatile char *own = malloc(eight);
    for (long n = 0; n < count; n++) own[n] = 0;
    free((void *)own);
    Py_RETURN_NONE;
}

/* The byte of a bytearray at an index. */
static PyObject *byte_at(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *array;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "On", &array, &index)) return NULL;
    return PyLong_FromLong(PyByteArray_AsString(array)[index]);
}

static PyObject *next(PyObject *Py_UNUSED(module), PyObject *given)
{
    int number = (int)PyLong_AsLong(given);
    return PyLong_FromLong(number + 1);
}

static PyMethodDef methods[] = {
    {"fill", fill, METH_O, NULL},
    {"byte_at", byte_at, METH_VARARGS, NULL},
    {"next", next, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "broken", .m_methods = methods
};
PyMODINIT_FUNC PyInit_broken(void) { return PyModule_Create(&module); }
"""
SOUND = "broken.fill(8); broken.byte_at(bytearray(40), 39); broken.next(2**31 - 2)"
WRONG = {
    "broken.fill(9)": "heap-buffer-overflow",
    "broken.byte_at(bytearray(40), 41)": "heap-buffer-overflow",  # 40 has the byte that ends it
    "broken.next(2**31 - 1)": "signed integer overflow",
}


def test_all_tests_of_the_c_parts_exist() -> None:
    assert [path for path in TESTED_BY if not (ROOT / path).exists()] == []
    path, name = LEFT_OUT.split("::")
    assert f"def {name}(" in (ROOT / path).read_text()


def test_what_uses_the_modules_in_unit_tests_is_listed() -> None:
    """By name: what finds them through the code under test is listed as it was traced."""
    users = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests" / "unit").rglob("test_*.py")
        if any(
            f"tests.{name}" in path.read_text()
            for name in ("accelerator", "native_encoder", "unit.sdk.arrow.encoders")
        )
    }
    missing = {path for path in users if not path.startswith(TESTED_BY)}
    assert missing <= {Path(__file__).relative_to(ROOT).as_posix()}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_fits_the_source(mutant: script.Mutant) -> None:
    assert not mutant.sound or POOL.read_text().count(mutant.sound) == 1


@pytest.mark.parametrize(("arguments", "status"), [([], 2), (["--if-possible"], 0)])
def test_without_a_compiler_one_line_says_what_to_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(script, "FOLDER", tmp_path / "made")
    assert script.main(arguments) == status
    said = "| sanitize: not run: no no-such-compiler; install gcc\n"
    assert capsys.readouterr().out == said


def test_a_compiler_without_sanitizers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(Missing, match="cannot link libasan and libubsan; install its sanitizers"):
        find_sanitizers(tmp_path)


def test_a_program_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 600 & echo $! > {number}; wait"]
    with pytest.raises(Finding, match="sh did not end within 3 s"):
        run(command, seconds_max=3, environment={"PATH": os.defpath})
    assert not psutil.pid_exists(int(number.read_text()))


def _tools(folder: Path) -> Tools | None:
    try:
        return find_sanitizers(folder)
    except Missing:
        return None


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    found = _tools(tmp_path_factory.mktemp("tools"))
    if found is None:
        pytest.skip("no gcc with sanitizers")
    return found


@pytest.fixture(scope="module")
def package(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the instrumented module."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "broken.c"
    source.write_text(BROKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", " ".join(tools.compiler))
        patch.setenv("CFLAGS", " ".join(MODULES))
        built = compile_source(source, folder, "broken.abi3.so")
    built.file.rename(folder / "broken.abi3.so")
    return folder


def test_a_sound_call_is_no_finding(tools: Tools, package: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import broken; {SOUND}; print('done')"]
    reports = tmp_path / "reports"
    found = run_instrumented(command, reports, environment_of(tools, package, reports))
    assert found == "done\n"


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_is_a_finding_also_in_a_process_whose_status_nobody_reads(
    tools: Tools, package: Path, tmp_path: Path, call: str
) -> None:
    program = f"import broken; {call}"
    hidden = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    for number, given in enumerate((program, hidden)):
        reports = tmp_path / f"reports-{number}"
        environment = environment_of(tools, package, reports)
        with pytest.raises(Finding, match=WRONG[call]) as caught:
            run_instrumented([sys.executable, "-c", given], reports, environment)
        assert "broken.c:" in str(caught.value)


def test_a_race_that_is_not_there_is_no_proof(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant that changes nothing must fail: else no mutant would prove anything."""
    monkeypatch.setattr(script, "run_driver", lambda *_: (0, "24000 commits"))
    with pytest.raises(Finding, match="was not seen: status 0"):
        check_mutant(tools, tmp_path / "made", script.Mutant("nothing"))


def test_a_mutant_of_another_source_is_refused(tools: Tools, tmp_path: Path) -> None:
    with pytest.raises(CannotBuild, match="adapt the mutant"):
        build_driver(tools, tmp_path / "made", (), script.Mutant("old", sound="no such text"))
