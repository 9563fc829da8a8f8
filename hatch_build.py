"""Build hook of the wheel: adds the compiled parts (scripts/build_accelerator.py) if it can.

OPENTALOS_BUILD_ACCELERATOR: ``auto``, the default, builds them where a C compiler is and says so
where none is; ``required`` fails instead; ``off`` makes the wheel that runs everywhere.
OPENTALOS_COMPILE_LEAVES: ``1`` adds the modules of scripts/compile_leaves.py, or fails, as it does
if the accelerator is ``off`` or cannot be built; such a wheel is for the version of Python that
builds it.
"""

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "OPENTALOS_BUILD_ACCELERATOR"
LEAVES_VARIABLE = "OPENTALOS_COMPILE_LEAVES"
LEAVES_NEED = ("mypy>=1.13,<3", "setuptools>=65,<90")


def built_for() -> str:
    """The platform that the compiler's output runs on, as the tag of a wheel names it."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if sys.platform != "darwin":
        return platform
    # A Python for both processors and older systems tells of itself, not of what was compiled.
    from hatchling.builders.macos import process_macos_plat_tag
    from packaging.tags import platform_tags

    return process_macos_plat_tag(next(platform_tags()), compat=False)


class AcceleratorHook(BuildHookInterface):  # type: ignore[type-arg]
    """For wheels; an editable installation gets its compiled parts by ``make accelerator``."""

    folder: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """What has to be installed for the build."""
        return list(LEAVES_NEED) if os.environ.get(LEAVES_VARIABLE) == "1" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is made."""
        wanted = os.environ.get(VARIABLE, "auto")
        if wanted not in ("auto", "off", "required"):
            raise ValueError(f"{VARIABLE} must be auto, off or required, not {wanted!r}")
        leaves = os.environ.get(LEAVES_VARIABLE) == "1"
        if leaves and wanted == "off":
            raise ValueError(f"{LEAVES_VARIABLE}=1 needs {VARIABLE} auto or required, not off")
        if self.target_name != "wheel" or version == "editable" or wanted == "off":
            return
        sys.path.insert(0, str(Path(self.root) / "scripts"))
        try:
            import build_accelerator
            import compile_leaves
        finally:
            del sys.path[0]
        self.folder = tempfile.TemporaryDirectory(prefix="opentalos-wheel-")
        try:
            parts = build_accelerator.build_parts(Path(self.folder.name))
        except build_accelerator.CannotBuild as error:
            if leaves or wanted == "required":
                raise
            self.app.display_warning(f"the wheel has no accelerator: {error}")
            return
        if leaves:
            copy = Path(self.folder.name) / "compiled"
            for file in compile_leaves.compile_into(copy):
                module = file.relative_to(copy).as_posix()
                parts.append(build_accelerator.Built(file, module, abi3=False))
        build_data["pure_python"] = False
        build_data["force_include"] |= {str(part.file): part.module for part in parts}
        if all(part.abi3 for part in parts):
            build_data["tag"] = f"cp311-abi3-{built_for()}"
        else:  # for this version of Python alone
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after it was made."""
        if self.folder is not None:
            self.folder.cleanup()
