"""The homes of lake tables, for all cases of this folder."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import cast

import pytest
from tests.contract.lake.openers import HOMES, Home, home_params
from tests.contract.openers import Place


@pytest.fixture(params=home_params())
def home(request: pytest.FixtureRequest, place: Place) -> Iterator[Home]:
    """Each home in turn."""
    opener = cast(Callable[[Place], AbstractContextManager[Home]], HOMES[request.param])
    with opener(place) as found:
        yield found
