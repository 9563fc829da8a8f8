"""Install Chromium, in which tests look at pages, or report why it is unavailable.

It is Debian's package, since browsers need many libraries of the system; one on the path will do as
well. Quick when it is there. Never fails: only its own tests need it.
"""

import os
import shutil
import subprocess
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
PACKAGES: Final = ("chromium", "fonts-dejavu-core")
TIMEOUT_S: Final = 600.0
REMEDY: Final = "install Chromium, on Debian and Ubuntu by: apt-get install chromium"


def chromium() -> str | None:
    """The path of a browser, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> None:
    """Raises: OSError, subprocess.SubprocessError."""
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(
            ("apt-get", "--quiet", *command),
            env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip


def main() -> None:
    if chromium() is not None:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"setup: no browser, so the tests of pages will fail; {REMEDY}", flush=True)
        return
    print("setup: installing Chromium for the tests of pages: 100 MB", flush=True)
    try:
        install()
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        print(f"setup: could not install Chromium: {reason.strip()[-500:]}; {REMEDY}", flush=True)


if __name__ == "__main__":
    main()
