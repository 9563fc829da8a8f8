"""What competes in a figure: a version of the package with settings of its server."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.put_figures import UNLIMITED
from bench.server import ServerProcess

ROOT = Path(__file__).resolve().parent.parent
COMPILED = Path(".cache") / "compiled"  # of scripts/compile_leaves.py, in a checkout
NATIVE = Path("opentalos") / "adapters" / "local"
Settings = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Build:
    """``package`` is the folder on PYTHONPATH; ``settings`` beyond those of every figure."""

    name: str
    package: Path
    settings: Settings = field(default_factory=dict)

    def server(self, data: Path, **environment: str) -> ServerProcess:
        """A server of this version, with the interpreter and the dependencies of this one."""
        # Byte code is written, or every start would compile all modules, whatever the caller set.
        variables = {"PYTHONPATH": str(self.package), "PYTHONDONTWRITEBYTECODE": "", **environment}
        launcher = ["env", *(f"{name}={value}" for name, value in variables.items())]
        launcher += [sys.executable, "-m", "opentalos.cli.main", "serve"]
        return ServerProcess(data, settings={**UNLIMITED, **self.settings}, launcher=launcher)


def has_native(package: Path) -> bool:
    """Whether native commit threads are built there."""
    return any((package / NATIVE).glob("_native*.so"))


def fastest_package(checkout: Path) -> Path:
    """The compiled leaves of a checkout if they are of its sources, else the sources.

    Native threads are used from where they are built; only beside the leaves, both are.
    """
    source, compiled = checkout / "src", checkout / COMPILED
    return compiled if _same_modules(source, compiled) else source


def _same_modules(source: Path, compiled: Path) -> bool:
    """Leaves of former sources would measure another version."""
    if not any(compiled.glob("*.so")) or not has_native(compiled):
        return False
    modules = [path.relative_to(source) for path in source.rglob("*.py")]
    copies = {path.relative_to(compiled) for path in (compiled / "opentalos").rglob("*.py")}
    return set(modules) == copies and all(
        (source / module).read_bytes() == (compiled / module).read_bytes() for module in modules
    )


def builds_of(checkout: Path = ROOT) -> list[Build]:
    """Pure Python and, if it is built, the accelerator, each without a journal and with one."""
    found = [("Python", checkout / "src", "off")]
    fastest = fastest_package(checkout)
    if has_native(fastest):
        found.append(("compiled" if fastest.name == "compiled" else "native", fastest, "required"))
    return [
        Build(
            f"{name}, journal" if journal else name,
            package,
            {
                "storage": {"accelerator": accelerator},
                "log": {"journal": "on" if journal else "off"},
            },
        )
        for name, package, accelerator in found
        for journal in (False, True)
    ]
