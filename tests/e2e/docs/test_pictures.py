"""Pages as a browser shows them, wide and on a phone; the pictures stay in .cache/pictures.

They are there to be looked at: the tests know only that a page was drawn, and with its text.
"""

import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image
from scripts.install_programs import CHROMIUM
from tests.shared_servers import SharedServers
from tests.waiting import completed

ROOT = Path(__file__).resolve().parents[3]
PICTURES = ROOT / ".cache" / "pictures"
WIDE, PHONE = (1280, 1600), (500, 1200)  # Chromium has no narrower window
LOADED_MS = 20_000  # of the page's own time, which passes faster than ours
COLOURS_MIN = 20  # an empty page has one


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = completed(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.fixture
def server(servers: SharedServers) -> str:
    return servers.get().url


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chromium")


def browse(profile: Path, url: str, size: tuple[int, int], *what: str) -> str:
    """Open a page, and end. Returns: what the browser printed."""
    program = CHROMIUM.path
    assert program is not None, CHROMIUM.remedy
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--disable-dev-shm-usage", f"--virtual-time-budget={LOADED_MS}",
        f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", *what, url,
    ]  # fmt: skip
    done = completed(command)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize(
    ("name", "path", "shown"),
    [
        ("site", "site/", "A durable, partitioned message queue"),
        ("tutorial", "site/tutorial.html", "orders"),
        ("promises", "site/promises.html", "acknowledged"),
        ("rest-api", "server/docs", "consumer groups"),
        ("status", "server/", "OpenTalos"),
    ],
)
def test_a_page_is_drawn(
    request: pytest.FixtureRequest,
    profile: Path,
    name: str,
    path: str,
    shown: str,
    size: tuple[int, int],
) -> None:
    where, _, rest = path.partition("/")
    url = f"{request.getfixturevalue(where)}/{rest}"
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{name}-{size[0]}.png"
    picture.unlink(missing_ok=True)
    assert shown in browse(profile, url, size, f"--screenshot={picture}", "--dump-dom")
    with Image.open(picture) as drawn:
        assert drawn.size == size
        colours = drawn.convert("RGB").getcolors(maxcolors=drawn.width * drawn.height)
    assert colours is not None
    assert len(colours) > COLOURS_MIN
