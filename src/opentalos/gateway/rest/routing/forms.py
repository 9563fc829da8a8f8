"""Forms of strings in requests: the pattern that OpenAPI publishes, and the same in words.

Error texts show the words only.
"""

from typing import NamedTuple


class Form(NamedTuple):
    """What a string must look like."""

    pattern: str  # anchored: it starts with ^ and ends with $
    allowed: str  # the same in words, to follow "must be"


_NAME = r"[a-zA-Z0-9]([a-zA-Z0-9_-]{0,78}[a-zA-Z0-9-])?"
_NAME_RULE = (
    "1 to 80 ASCII letters, digits, _ and -, starting with a letter or digit and not ending with _"
)

BASE64 = Form(
    r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "base64 with padding"
)
PRINTABLE = Form(r"^[^\x00-\x1f]+$", "a non-empty string without control characters")
ASCII = Form(r"^[ -~]+$", "a non-empty string of printable ASCII characters")
NAME = Form(f"^{_NAME}$", _NAME_RULE)
NEW_TOPIC = Form(
    r"^(CL([a-zA-Z0-9_-]{0,77}[a-zA-Z0-9-])?/)?"
    r"([a-zA-Z0-9][a-zA-Z0-9._-]{0,119}|_[a-zA-Z0-9][a-zA-Z0-9._-]{0,118})$",
    "NAME or ORGANISATION/NAME, where the organisation starts with CL and the name is 1 to 120 "
    "ASCII letters, digits, _, - and ., starting with a letter or digit, or with _ and one",
)
NEW_NAME = Form(
    rf"^(CL([a-zA-Z0-9_-]{{0,77}}[a-zA-Z0-9-])?/)?{_NAME}$",
    "NAME or ORGANISATION/NAME, where the organisation starts with CL and each part is "
    f"{_NAME_RULE}",
)
OWNED_TOPIC = Form(
    r"^[a-zA-Z0-9][a-zA-Z0-9._@#+:-]{0,127}/[a-zA-Z0-9_][a-zA-Z0-9._-]{0,119}$",
    "OWNER/NAME as lists of topics have them",
)
_GROUP = r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,199}"
_GROUP_RULE = "1 to 200 ASCII letters, digits, _, - and ., not starting with - or ."
GROUP_NAME = Form(f"^{_GROUP}$", _GROUP_RULE)
GROUP = Form(
    rf"^([a-zA-Z0-9][a-zA-Z0-9._@#+:-]{{0,127}}/)?{_GROUP}$",
    f"NAME or TENANT/NAME, where the name is {_GROUP_RULE}",
)
PRINCIPAL_ID = Form(
    r"^[a-zA-Z0-9][a-zA-Z0-9._@#+:-]{0,127}$",
    "1 to 128 ASCII letters, digits and . _ @ # + : -, starting with a letter or digit",
)
ORGANISATION_ID = Form(
    r"^(CL[a-zA-Z0-9._@#+:-]{0,126})?$",
    "CL followed by at most 126 ASCII letters, digits and . _ @ # + : -, or empty",
)
TEAM_ID = Form(
    r"^(CI[a-zA-Z0-9._@#+:-]{0,126})?$",
    "CI followed by at most 126 ASCII letters, digits and . _ @ # + : -, or empty",
)
PARTITION = Form(r"^(0|[1-9][0-9]{0,8})$", "a partition number of at most 9 digits")
IDEMPOTENCY_KEY = Form(
    r"^[\x21-\x7e]{1,200}$", "1 to 200 printable ASCII characters without spaces"
)
EVENTS_FROM = Form(r"^(start|end|[0-9]{1,16})$", "start, end or a Unix time in milliseconds")
