"""A figure measures the version that it names."""

from pathlib import Path

from bench.builds import builds_of, fastest_package, has_native

NATIVE = Path("opentalos/adapters/local/_native.abi3.so")


def _package(folder: Path, text: str, *, native: bool = False) -> Path:
    for module in ("opentalos/__init__.py", "opentalos/adapters/local/__init__.py"):
        path = folder / module
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if native:
        (folder / NATIVE).touch()
    return folder


def _checkout(tmp_path: Path, compiled_text: str) -> Path:
    _package(tmp_path / "src", "now", native=True)
    compiled = _package(tmp_path / ".cache" / "compiled", compiled_text, native=True)
    (compiled / "opentalos__mypyc.so").touch()
    return tmp_path


def test_leaves_of_the_same_sources_are_measured(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path, "now")
    assert fastest_package(checkout) == checkout / ".cache" / "compiled"
    names = [build.name for build in builds_of(checkout)]
    assert names == ["Python", "Python, journal", "compiled", "compiled, journal"]


def test_leaves_of_former_sources_are_not_measured(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path, "former")
    assert fastest_package(checkout) == checkout / "src"
    assert [build.name for build in builds_of(checkout)][2:] == ["native", "native, journal"]


def test_a_checkout_without_compiled_parts_is_measured_as_it_is(tmp_path: Path) -> None:
    source = _package(tmp_path / "src", "now")
    assert not has_native(source)
    assert {build.package for build in builds_of(tmp_path)} == {source}
    assert [build.name for build in builds_of(tmp_path)] == ["Python", "Python, journal"]
