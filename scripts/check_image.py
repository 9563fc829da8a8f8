"""Build the image without a container engine, and run it.

usage: check_image.py [FOLDER]      (default .cache/image)

Debian's packages make the base, buildah builds deploy/container/Dockerfile on it, and a mount
namespace runs the result as an engine would: the image's user and environment, a read-only root, no
capabilities, a volume that belongs to root and to the server's group. Needs root, Debian's archive
and the package index; 2 GB. Leaves the base in FOLDER, for the next time.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SUITE = "bookworm"
PACKAGES = "ca-certificates,python3,python3-dev,python3-venv"  # as the Dockerfile says of BASE
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"  # this machine's, which may have more
BASE, IMAGE = "localhost/opentalos-base", "localhost/opentalos-checked"
NEEDED = ("buildah", "debootstrap", "unshare", "mount", "chroot")
VOLUME = "/var/lib/opentalos"
VOLUME_MODE = 0o2775
HEALTH = ("python3", "/usr/local/lib/opentalos/healthcheck.py", f"{VOLUME}/data")
STOP_S = 30.0
ANSWER_S = 10.0
# The mounts end with the namespace. Everything is exec, so that a signal reaches the command.
CONTAINER = """
set -e
root=$1 volume=$2 place=$3 user=$4
shift 4
mount --bind "$root" "$root"
mount --bind "$volume" "$root$place"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid "${user%:*}" --regid "${user##*:}" --clear-groups \
  --bounding-set=-all --no-new-privs -- "$@"
"""


class ImageError(Exception):
    """The image does not do what it should."""


def buildah(folder: Path, *arguments: str | Path) -> str:
    """Its output; what it says goes to FOLDER/log. Raises: ImageError."""
    places = ("--root", folder / "store", "--runroot", folder / "run", "--storage-driver=overlay")
    with (folder / "log").open("ab") as log:
        done = subprocess.run(
            ["buildah", *map(str, (*places, *arguments))],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    if done.returncode != 0:
        raise ImageError(f"buildah {arguments[0]} failed; see {folder / 'log'}")
    return done.stdout.strip()


def make_base(folder: Path) -> None:
    """The image that stands for that of the registry, unless it is there. Raises: ImageError."""
    if BASE in buildah(folder, "images", "--noheading", "--format", "{{.Name}}"):
        return
    system = folder / "system"
    shutil.rmtree(system, ignore_errors=True)
    with (folder / "log").open("ab") as log:
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(system)],
            stdout=log, stderr=log,
        )  # fmt: skip
    if done.returncode != 0:
        raise ImageError(f"debootstrap failed; see {folder / 'log'}")
    shutil.copyfile(Path("/", AUTHORITIES), system / AUTHORITIES)
    recipe = folder / "Base"
    recipe.write_text("FROM scratch\nCOPY system /\n")
    buildah(folder, "bud", "--isolation=chroot", "--tag", BASE, "--file", recipe, folder)
    shutil.rmtree(system)


def build(folder: Path, target: str) -> None:
    """Build a target of the Dockerfile. Raises: ImageError."""
    buildah(
        folder, "bud", "--isolation=chroot", "--format=docker", "--layers=false",
        "--build-arg", f"BASE={BASE}", "--target", target, "--tag", IMAGE,
        "--file", ROOT / "deploy" / "container" / "Dockerfile", ROOT,
    )  # fmt: skip


@dataclass(frozen=True)
class Image:
    """A mounted image and what it says of itself."""

    root: Path
    config: dict[str, Any]
    volume: Path

    def command(self, *words: str) -> list[str]:
        """What runs a command in a container of the image."""
        user = self.config["User"]
        outer = ("unshare", "--mount", "--propagation=private", "sh", "-c", CONTAINER, "container")
        inner = ("env", "-i", f"--chdir={self.config['WorkingDir']}", *self.config["Env"], *words)
        return [*outer, str(self.root), str(self.volume), VOLUME, user, *inner]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60)


@contextmanager
def mounted(folder: Path) -> Iterator[Image]:
    """The image that was built, and an empty volume as Kubernetes makes one."""
    name = buildah(folder, "from", "--pull-never", IMAGE)
    volume = folder / "volume"
    shutil.rmtree(volume, ignore_errors=True)
    volume.mkdir()
    try:
        root = Path(buildah(folder, "mount", name))
        config = json.loads(buildah(folder, "inspect", "--type=image", IMAGE))["Docker"]["config"]
        os.chown(volume, 0, int(config["User"].rpartition(":")[2]))
        volume.chmod(VOLUME_MODE)
        yield Image(root, config, volume)
    finally:
        buildah(folder, "umount", name)
        buildah(folder, "rm", name)
        shutil.rmtree(volume)


def check(condition: object, complaint: str) -> None:
    """Raises: ImageError."""
    if not condition:
        raise ImageError(complaint)


def try_out(image: Image) -> None:
    """Start the image's command, ask it, and end it. Raises: ImageError."""
    check(image.run("id", "-u").stdout.strip() == image.config["User"].partition(":")[0], "user")
    read_only = image.run("grep", "-q", "^[^ ]* / [^ ]* ro,", "/proc/mounts")
    check(read_only.returncode == 0, "the root file system can be written to")
    check(image.run(*HEALTH).returncode == 1, "healthy before it runs")
    command = [*image.config["Entrypoint"], *image.config["Cmd"]]
    changed = ("--data", f"{VOLUME}/data", "--listen", "127.0.0.1:0")  # the last of two counts
    with subprocess.Popen(
        image.command(*command, *changed),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        try:
            ready = server.stdout.readline().split()
            check(ready[:1] == ["ready"], "no ready line")
            check(answers(f"{ready[1]}/readyz"), "/readyz is not 200")
            check(image.run(*HEALTH).returncode == 0, "its health check fails")
            health = image.config["Healthcheck"]["Test"]
            check(health[1:-1] == list(HEALTH[:-1]), f"another health check: {health}")
            server.send_signal(getattr(signal, image.config["StopSignal"]))
            check(server.wait(STOP_S) == 0, "it did not end with 0")
        finally:
            server.kill()
    modes = {path.stat().st_mode & 0o077 for path in (image.volume / "data").rglob("*")}
    check(modes == {0}, "others can read its files")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as reply:
            return bool(reply.status == 200)
    except urllib.error.URLError:
        return False


def main() -> None:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        what = f"{', '.join(missing)} (apt-get install buildah debootstrap)" if missing else "root"
        sys.exit(f"check_image: needs {what}; no image was built")
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / ".cache" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        make_base(folder)
        build(folder, "server")
        with mounted(folder) as image:
            try_out(image)
    except ImageError as error:
        sys.exit(f"check_image: {error}")
    print("the image builds, runs as another user on a read-only root, is healthy and drains")


if __name__ == "__main__":
    main()
