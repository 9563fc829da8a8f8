from types import ModuleType

import pytest
from tests.unit.sdk.arrow.encoders import DECODERS, ENCODERS

from opentalos.sdk.arrow import native_columns, native_rows


@pytest.fixture(params=ENCODERS, ids=["numpy", "native"][: len(ENCODERS)])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType | None:
    """Each encoder in turn; None: numpy and Arrow."""
    module: ModuleType | None = request.param
    monkeypatch.setattr(native_rows, "NATIVE", module)
    return module


@pytest.fixture(params=DECODERS, ids=["numpy", "native"][: len(DECODERS)])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType | None:
    """Each decoder in turn; None: numpy and Arrow."""
    module: ModuleType | None = request.param
    monkeypatch.setattr(native_columns, "NATIVE", module)
    return module
