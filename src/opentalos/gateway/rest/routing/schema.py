"""The part of JSON Schema that REST uses: the same dict is published and checked against."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from opentalos.model.errors import BadRequest

Schema = Mapping[str, Any]

I64_MAX = (1 << 63) - 1
_SHOWN_CHARS_MAX = 60
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def text(
    pattern: str | None = None, *, chars_max: int | None = None, chars_min: int = 0, about: str = ""
) -> Schema:
    """A string. ``pattern`` is anchored: it starts with ``^`` and ends with ``$``."""
    bounds = {
        "pattern": pattern,
        "minLength": chars_min or None,
        "maxLength": chars_max,
        "description": about or None,
    }
    return {"type": "string"} | {name: one for name, one in bounds.items() if one is not None}


def base64_text(about: str = "") -> Schema:
    """Bytes in base64, with padding."""
    return {**text(_BASE64, about=about), "contentEncoding": "base64"}


def whole(least: int = 0, most: int = I64_MAX, about: str = "") -> Schema:
    """A whole number of the range."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return schema | {"description": about} if about else schema


def number(about: str = "") -> Schema:
    """A number of 0 or more, whole or not; only in answers."""
    schema = {"type": "number", "minimum": 0}
    return schema | {"description": about} if about else schema


def one_of(*values: str, about: str = "") -> Schema:
    """One of these texts."""
    schema = {"type": "string", "enum": list(values)}
    return schema | {"description": about} if about else schema


def yes_no(about: str = "") -> Schema:
    """True or false."""
    return {"type": "boolean"} | ({"description": about} if about else {})


def items(schema: Schema, *, least: int = 0, most: int | None = None) -> Schema:
    """An array."""
    bounds = {"minItems": least or None, "maxItems": most}
    extra = {name: one for name, one in bounds.items() if one is not None}
    return {"type": "array", "items": schema} | extra


def fields(
    about: str = "", /, *, optional: Mapping[str, Schema] | None = None, **required: Schema
) -> Schema:
    """An object with these fields and no others."""
    properties = {**required, **(optional or {})}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    schema["additionalProperties"] = False
    return schema | {"description": about} if about else schema


def not_empty(schema: Schema) -> Schema:
    """An object with at least one of its fields."""
    return {**schema, "minProperties": 1}


def table(
    values: Schema, names: Schema | None = None, *, least: int = 0, most: int | None = None
) -> Schema:
    """An object whose field names are data."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": values}
    if names is not None:
        schema["propertyNames"] = names
    if least:
        schema["minProperties"] = least
    if most is not None:
        schema["maxProperties"] = most
    return schema


def either(*schemas: Schema) -> Schema:
    """What fits exactly one of them."""
    return {"oneOf": list(schemas)}


def nullable(schema: Schema) -> Schema:
    """Null besides what the schema says."""
    return {"anyOf": [schema, {"type": "null"}]}


def check(schema: Schema, value: Any, place: str) -> Any:
    """The value if it fits; whole numbers written like 1.0 become such, also within the value.

    Raises: BadRequest: the text names the place and the rule.
    """
    for name, several in (("oneOf", True), ("anyOf", False)):
        if name in schema:
            fitting = [one for one in schema[name] if _fits(one, value, place)]
            if not fitting or (several and len(fitting) > 1):
                raise BadRequest(f"{place} fits {len(fitting)} of the forms that it may have")
            return check(fitting[0], value, place)
    kind = schema.get("type")
    return value if kind is None else _CHECKS[kind](schema, value, place)


def _fits(schema: Schema, value: Any, place: str) -> bool:
    try:
        check(schema, value, place)
    except BadRequest:
        return False
    return True


def _check_text(schema: Schema, value: Any, place: str) -> Any:
    if not isinstance(value, str):
        raise BadRequest(f"{place} must be a text")
    if "enum" in schema and value not in schema["enum"]:
        raise BadRequest(f"{place} must be one of {', '.join(schema['enum'])}")
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least or (most is not None and len(value) > most):
        raise BadRequest(f"{place} has {len(value)} characters, need {least} to {most}")
    if "contentEncoding" in schema:
        _check_base64(value, place)  # much quicker than the pattern, which says the same
    elif "pattern" in schema and not re.fullmatch(schema["pattern"][1:-1], value):
        shown = value[:_SHOWN_CHARS_MAX]
        raise BadRequest(f"{place} {shown!r} does not have the form {schema['pattern']}")
    return value


def _check_base64(value: str, place: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except ValueError as error:
        raise BadRequest(f"{place} is not base64: {error}") from error


def _check_whole(schema: Schema, value: Any, place: str) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest(f"{place} must be a whole number")
    least, most = schema["minimum"], schema["maximum"]
    if not least <= value <= most:
        raise BadRequest(f"{place} must be {least} to {most}")
    return value


def _check_number(schema: Schema, value: Any, place: str) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool) or value < schema["minimum"]:
        raise BadRequest(f"{place} must be a number of {schema['minimum']} or more")
    return value


def _check_yes_no(schema: Schema, value: Any, place: str) -> Any:
    if not isinstance(value, bool):
        raise BadRequest(f"{place} must be true or false")
    return value


def _check_null(schema: Schema, value: Any, place: str) -> Any:
    if value is not None:
        raise BadRequest(f"{place} must be null")
    return value


def _check_items(schema: Schema, value: Any, place: str) -> Any:
    if not isinstance(value, list):
        raise BadRequest(f"{place} must be an array")
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < least or (most is not None and len(value) > most):
        raise BadRequest(f"{place} has {len(value)} items, need {least} to {most}")
    for index, one in enumerate(value):
        value[index] = check(schema["items"], one, f"{place}[{index}]")
    return value


def _check_fields(schema: Schema, value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise BadRequest(f"{place} must be a JSON object")
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    if len(value) < least or (most is not None and len(value) > most):
        raise BadRequest(f"{place} has {len(value)} fields, need {least} to {most}")
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        raise BadRequest(f"{place} needs {', '.join(missing)}")
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, one in value.items():
        shown = name[:_SHOWN_CHARS_MAX]
        if name in known:
            value[name] = check(known[name], one, f"{place}.{name}")
            continue
        if others is False:
            raise BadRequest(f"{place} has no field {shown!r}; unknown fields are refused")
        if "propertyNames" in schema:
            check(schema["propertyNames"], name, f"a name in {place}")
        if others is not None:
            value[name] = check(others, one, f"{place}.{shown}")
    return value


_CHECKS: dict[str, Callable[[Schema, Any, str], Any]] = {
    "string": _check_text,
    "integer": _check_whole,
    "number": _check_number,
    "boolean": _check_yes_no,
    "null": _check_null,
    "array": _check_items,
    "object": _check_fields,
}
