"""Install the programs of others that tests run, or report which are unavailable.

They are Debian's packages, since they need libraries of the system; one on the path will do as
well. Quick when they are there. Never fails: only their own tests need them.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final, NamedTuple

TIMEOUT_S: Final = 600.0


class Program(NamedTuple):
    """A program, the names that it may have, and the packages that bring it."""

    about: str
    names: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def path(self) -> str | None:
        """Where it is, if it is there."""
        return next((path for name in self.names if (path := shutil.which(name))), None)

    @property
    def remedy(self) -> str:
        """What a person does who lacks it."""
        return f"install it, on Debian and Ubuntu by: apt-get install {self.packages[0]}"


CHROMIUM: Final = Program(
    "Chromium, in which tests look at pages",
    ("chromium", "chromium-browser", "google-chrome"),
    ("chromium", "fonts-dejavu-core"),
)
KCAT: Final = Program("kcat, a client of Kafka", ("kcat", "kafkacat"), ("kcat",))
PROGRAMS: Final = (CHROMIUM, KCAT)


def install(packages: Sequence[str]) -> None:
    """Raises: OSError, subprocess.SubprocessError."""
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(
            ("apt-get", "--quiet", *command),
            env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip


def main() -> None:
    missing = [program for program in PROGRAMS if program.path is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        for program in missing:
            print(f"setup: no {program.about}: {program.remedy}", flush=True)
        return
    print(f"setup: installing {' and '.join(p.about for p in missing)}", flush=True)
    for program in missing:
        try:
            install(program.packages)
        except (OSError, subprocess.SubprocessError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()[-500:]
            print(f"setup: no {program.about}: {reason}; {program.remedy}", flush=True)


if __name__ == "__main__":
    main()
