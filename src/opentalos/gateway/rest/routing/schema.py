"""The part of JSON Schema that REST uses: one dict is published in OpenAPI and checked against.

Route tables are made from the functions here; ``check`` compares a decoded value with a schema.
``docs/adr/0015-validation.md`` says why this is not a library.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentalos.gateway.rest.routing.forms import BASE64, Form
from opentalos.model.checks import boolean as check_boolean
from opentalos.model.checks import choice, plural, shown_value, size, string
from opentalos.model.checks import integer as check_integer
from opentalos.model.checks import null as check_null
from opentalos.model.checks import number as check_number
from opentalos.model.errors import BadRequest

Schema = Mapping[str, Any]

I64_MAX = (1 << 63) - 1
_NAME_CHARS_MAX = 60  # of a field name that is data, in the place of an error
_ALLOWED = "x-allowed"  # what a pattern allows, as a sentence for error texts and readers
_NULL: Mapping[str, Any] = {"type": "null"}
_PIECE_STEPS = 128  # items and fields that are checked between two pauses
Step = Callable[[], None]  # called before each item and field


def text(
    form: Form | None = None, *, chars_max: int | None = None, chars_min: int = 0, about: str = ""
) -> Schema:
    """A string."""
    keywords = {
        "pattern": form and form.pattern,
        _ALLOWED: form and form.allowed,
        "minLength": chars_min or None,
        "maxLength": chars_max,
        "description": about or None,
    }
    return {"type": "string"} | {key: value for key, value in keywords.items() if value is not None}


def base64_text(about: str = "") -> Schema:
    """Bytes in base64, with padding."""
    return {**text(BASE64, about=about), "contentEncoding": "base64"}


def integer(minimum: int = 0, maximum: int = I64_MAX, about: str = "") -> Schema:
    """An integer within the bounds."""
    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return schema | {"description": about} if about else schema


def number(about: str = "") -> Schema:
    """A number of 0 or more; only in replies."""
    schema = {"type": "number", "minimum": 0}
    return schema | {"description": about} if about else schema


def one_of(*values: str, about: str = "") -> Schema:
    """One of these strings."""
    schema = {"type": "string", "enum": list(values)}
    return schema | {"description": about} if about else schema


def boolean(about: str = "") -> Schema:
    """True or false."""
    return {"type": "boolean"} | ({"description": about} if about else {})


def items(schema: Schema, *, minimum: int = 0, maximum: int | None = None) -> Schema:
    """An array with so many items."""
    bounds = {"minItems": minimum or None, "maxItems": maximum}
    extra = {key: bound for key, bound in bounds.items() if bound is not None}
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
    values: Schema, names: Schema | None = None, *, minimum: int = 0, maximum: int | None = None
) -> Schema:
    """An object whose field names are data, with so many fields."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": values}
    if names is not None:
        schema["propertyNames"] = names
    if minimum:
        schema["minProperties"] = minimum
    if maximum is not None:
        schema["maxProperties"] = maximum
    return schema


def either(*schemas: Schema) -> Schema:
    """A value that fits exactly one of the schemas."""
    return {"oneOf": list(schemas)}


def nullable(schema: Schema) -> Schema:
    """A value that fits the schema, or null."""
    return {"anyOf": [schema, _NULL]}


def _no_step() -> None:
    """Nothing to count."""


def check_in_pieces(schema: Schema, value: Any, place: str, pause: Callable[[], None]) -> Any:
    """Like ``check``, with a pause after each piece of a large value."""
    left = _PIECE_STEPS

    def step() -> None:
        nonlocal left
        left -= 1
        if not left:
            left = _PIECE_STEPS
            pause()

    return check(schema, value, place, step)


def check(schema: Schema, value: Any, place: str, step: Step = _no_step) -> Any:
    """The value if it fits; integers written like 1.0 become such, also within the value.

    Args:   step: called before each item and field.
    Raises: BadRequest: the text names the place and what is allowed there.
    """
    if "oneOf" in schema:
        return _check_alternatives(schema["oneOf"], value, place, step, exactly_one=True)
    if "anyOf" in schema:
        return _check_alternatives(schema["anyOf"], value, place, step, exactly_one=False)
    kind = schema.get("type")
    if kind is None:
        return value
    try:
        return _CHECKS[kind](schema, value, place, step)
    except ValueError as error:
        raise BadRequest(f"{place} {error}") from error


def _check_alternatives(
    schemas: Sequence[Schema], value: Any, place: str, step: Step, *, exactly_one: bool
) -> Any:
    fitting: list[Any] = []
    for schema in schemas:
        try:
            fitting.append(check(schema, value, place, step))
        except BadRequest:
            continue
    if fitting and not (exactly_one and len(fitting) > 1):
        return fitting[0]
    meant = [schema for schema in schemas if _resembles(schema, value)]
    if len(meant) == 1:
        check(meant[0], value, place, step)  # raises what is wrong with it
    raise BadRequest(f"{place} must be {' or '.join(map(_described, schemas))}")


def _resembles(schema: Schema, value: Any) -> bool:
    """Whether the sender probably meant this alternative."""
    match schema.get("type"), value:
        case ("string", str()) | ("array", list()):
            return True
        case "object", dict():
            return all(name in value for name in schema.get("required", ()))
    return False


def _described(schema: Schema) -> str:
    match schema.get("type"):
        case "object" if "required" in schema:
            return f"an object with {', '.join(schema['required'])}"
        case "integer":
            return f"an integer from {schema['minimum']:,} to {schema['maximum']:,}"
        case "null":
            return "null"
        case None:
            return "any JSON"
        case kind:
            return f"{'an' if kind[0] in 'ao' else 'a'} {kind}"


def _check_string(schema: Schema, value: Any, place: str, step: Step) -> Any:
    if "enum" in schema:
        return choice(value, schema["enum"])
    size(len(string(value)), "character", schema.get("minLength", 0), schema.get("maxLength"))
    if "contentEncoding" in schema:  # much quicker than the pattern, which says the same
        try:
            base64.b64decode(value, validate=True)
        except ValueError as error:
            raise ValueError(f"must be {BASE64.allowed}") from error
    elif "pattern" in schema and not re.fullmatch(schema["pattern"][1:-1], value):
        raise ValueError(f"must be {schema[_ALLOWED]}, not {shown_value(value)}")
    return value


def _check_integer(schema: Schema, value: Any, place: str, step: Step) -> Any:
    whole = isinstance(value, float) and value.is_integer()
    return check_integer(int(value) if whole else value, schema["minimum"], schema["maximum"])


def _check_items(schema: Schema, value: Any, place: str, step: Step) -> Any:
    if not isinstance(value, list):
        raise ValueError("must be an array")
    size(len(value), "item", schema.get("minItems", 0), schema.get("maxItems"))
    for index, item in enumerate(value):
        step()
        value[index] = check(schema["items"], item, f"{place}[{index}]", step)
    return value


def _check_fields(schema: Schema, value: Any, place: str, step: Step) -> Any:
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    size(len(value), "field", schema.get("minProperties", 0), schema.get("maxProperties"))
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        raise ValueError(f"lacks the {plural('field', len(missing))} {', '.join(missing)}")
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, part in value.items():
        step()
        if name in known:
            value[name] = check(known[name], part, f"{place}.{name}", step)
            continue
        if others is False:
            allowed = f"the known ones are {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"has the unknown field {shown_value(name)}; {allowed}")
        if "propertyNames" in schema:
            check(schema["propertyNames"], name, f"each name in {place}")
        if others is not None:
            value[name] = check(others, part, f"{place}.{name[:_NAME_CHARS_MAX]}", step)
    return value


_CHECKS: dict[str, Callable[[Schema, Any, str, Step], Any]] = {
    "string": _check_string,
    "integer": _check_integer,
    "number": lambda schema, value, place, step: check_number(value, schema["minimum"]),
    "boolean": lambda schema, value, place, step: check_boolean(value),
    "null": lambda schema, value, place, step: check_null(value),
    "array": _check_items,
    "object": _check_fields,
}
