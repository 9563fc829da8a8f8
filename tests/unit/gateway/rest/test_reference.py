"""The reference page is the one that the routes make."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[4] / "scripts" / "generate_rest_reference.py"


def test_the_reference_page_is_current() -> None:
    checked = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
