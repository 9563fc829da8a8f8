from dataclasses import replace

import pytest
from tests.unit.sds.bed import SCHEMA

from opentalos.sds import layout
from opentalos.sds.layout import layout_of


def test_the_same_schema_object_is_worked_out_once() -> None:
    assert layout_of(SCHEMA) is layout_of(SCHEMA)
    changed = replace(SCHEMA, attributes={**SCHEMA.attributes, "more": SCHEMA.attributes["age"]})
    assert "more" in layout_of(changed).types
    assert "more" not in layout_of(SCHEMA).types


def test_layouts_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, layout.Layout] = {}
    monkeypatch.setattr(layout, "_layouts", kept)
    monkeypatch.setattr(layout, "LAYOUTS_MAX", 3)
    for ttl_s in range(1, 11):
        schema = replace(SCHEMA, ttl_s=ttl_s)
        assert layout_of(schema).schema is schema
        assert len(kept) <= 3
