"""The build hook of the wheel: what is asked for is in the wheel, or the build fails."""

import importlib.util
import sys
import sysconfig
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from scripts import build_accelerator, compile_leaves
from scripts.compile_leaves import ROOT

LEAVES, ACCELERATOR = "OPENTALOS_COMPILE_LEAVES", "OPENTALOS_BUILD_ACCELERATOR"
Build = Callable[[], dict[str, Any]]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    """Runs the hook without hatchling, which only builds have; no compiler works."""
    names = "hatchling.builders.hooks.plugin.interface".split(".")
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    interface: Any = sys.modules[".".join(names)]
    interface.BuildHookInterface = object
    for module in (build_accelerator, compile_leaves):  # the hook imports them by these names
        monkeypatch.setitem(sys.modules, module.__name__.removeprefix("scripts."), module)
    monkeypatch.setattr(build_accelerator, "find_tools", lambda: (["no-such-compiler"], ROOT))
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook_module)

    def run() -> dict[str, Any]:
        hook = hook_module.AcceleratorHook()
        hook.target_name, hook.root = "wheel", str(ROOT)
        hook.app = SimpleNamespace(display_warning=print)
        data: dict[str, Any] = {"force_include": {}}
        try:
            hook.initialize("standard", data)
        finally:
            hook.finalize("standard", data, "")
        return data

    return run


@pytest.mark.parametrize(
    ("accelerator", "leaves", "error"),
    [
        ("auto", "1", "no-such-compiler"),
        ("required", "1", "no-such-compiler"),
        ("required", "", "no-such-compiler"),
        ("off", "1", f"{LEAVES}=1 needs {ACCELERATOR} auto or required, not off"),
        ("offf", "", f"{ACCELERATOR} must be auto, off or required"),
    ],
)
def test_a_wheel_without_what_was_asked_for_is_not_made(
    build: Build, monkeypatch: pytest.MonkeyPatch, accelerator: str, leaves: str, error: str
) -> None:
    monkeypatch.setenv(ACCELERATOR, accelerator)
    monkeypatch.setenv(LEAVES, leaves)
    with pytest.raises(Exception, match=error):
        build()


@pytest.mark.parametrize("accelerator", ["auto", "off"])
def test_a_wheel_for_every_machine_needs_no_compiler(
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    accelerator: str,
) -> None:
    monkeypatch.setenv(ACCELERATOR, accelerator)
    monkeypatch.delenv(LEAVES, raising=False)
    assert build() == {"force_include": {}}
    assert ("no accelerator" in capsys.readouterr().out) == (accelerator == "auto")


@pytest.mark.parametrize(
    ("system", "wanted"),
    [("linux", "cp311-abi3-macosx_10_9_universal2"), ("darwin", "cp311-abi3-macosx_14_0_arm64")],
)
def test_a_wheel_of_macos_is_named_for_what_was_compiled_not_for_the_python(
    build: Build, monkeypatch: pytest.MonkeyPatch, system: str, wanted: str
) -> None:
    tags: Any = ModuleType("packaging.tags")
    tags.platform_tags = lambda: iter(["macosx_14_3_arm64", "macosx_14_3_universal2"])
    macos: Any = ModuleType("hatchling.builders.macos")
    macos.process_macos_plat_tag = lambda tag, *, compat: tag.replace("14_3", "14_0")
    for module in (tags, macos):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    made = build_accelerator.Built(ROOT / "made", "made", abi3=True)
    monkeypatch.setattr(build_accelerator, "build_parts", lambda _folder: [made])
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "macosx-10.9-universal2")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv(ACCELERATOR, "required")
    monkeypatch.delenv(LEAVES, raising=False)
    assert build()["tag"] == wanted
