"""Where the storages of a case may be made."""

from pathlib import Path
from typing import cast

import pytest
from tests.conftest import RunningBackends
from tests.contract.openers import Place


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder, and the real backends, which start when the first case asks for them."""
    return Place(tmp_path, lambda: cast(RunningBackends, request.getfixturevalue("backends")))
