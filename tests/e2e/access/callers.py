"""The kinds of callers, and what was granted to them on every stage. One line is one kind.

Callers of one id are one principal; those with limits have a key of their own.
"""

from tests.e2e.access.model import Caller, Right

ORGANISATION = "CLacme"  # owns the resources of stage "organisation"
BOUND_ORGANISATION, BOUND_TEAM = "CLbound", "CIbound"
PUTTER = "putter"

ADMINISTRATOR = Caller("administrator", "root", admin=True)
OWNER = Caller("owner", "alice")
MEMBER = Caller("member of the organisation", "ann", ORGANISATION)
GRANTEE = Caller("grantee of all that can be granted", "friend")
CALLERS = (
    ADMINISTRATOR,
    OWNER,
    MEMBER,
    Caller("another member, in a team", "max", ORGANISATION, "CImax"),
    Caller("grantee of PUT and WRITE", PUTTER),
    Caller("grantee of GET and READ", "getter"),
    Caller("grantee of DESCRIBE", "describer"),
    GRANTEE,
    Caller("member of a granted organisation", "olga", "CLfriends"),
    Caller("member of a granted team", "tom", "", "CIfriends"),
    Caller("administrator of the table, by team", "tina", "", "CItables"),
    Caller("administrator of the table's quota", "quentin", "", "CIquota"),
    Caller("member of a bound organisation", "bob", BOUND_ORGANISATION),
    Caller("member of a bound team", "ben", BOUND_ORGANISATION, BOUND_TEAM),
    Caller("other tenant", "eve"),
    Caller("member of another organisation", "oscar", "CLother"),
    Caller("guest", anonymous=True),
    Caller("disabled member", "dave", ORGANISATION, known=False),
    Caller("member with a deleted key", "dora", ORGANISATION, known=False),
    Caller("member's key with a wrong secret", "ann", ORGANISATION, known=False),
    Caller("nobody", known=False),
    # Roles. As members of an organisation they have things of their own.
    Caller("viewer", "vera", ORGANISATION, role="viewer"),
    Caller("viewer with grants", "vito", "", "CIfriends", role="viewer"),
    Caller("operator", "omar", ORGANISATION, role="operator"),
    Caller("billing", "bella", ORGANISATION, role="billing"),
    Caller("agent", "agnes", ORGANISATION, role="agent"),
    # Keys with limits, of callers above.
    *(
        Caller(f"member's key to {scope}", "ann", ORGANISATION, scopes=(scope,))
        for scope in ("put", "get", "describe", "manage", "admin")
    ),
    Caller("member's key to use", "ann", ORGANISATION, scopes=("put", "get", "describe")),
    Caller("bound member's key to put", "bob", BOUND_ORGANISATION, scopes=("put",)),
    Caller("grantee's key to get", "friend", scopes=("get",)),
    Caller("operator's key to get", "omar", ORGANISATION, role="operator", scopes=("get",)),
    Caller("viewer's key of the role", "vera", ORGANISATION, role="viewer", scopes=("admin",)),
    Caller(
        "administrator's key to use", "root", admin=True, scopes=("put", "get", "describe")
    ),
    Caller("administrator's key to administer", "root", admin=True, scopes=("get", "admin")),
    Caller("administrator's key to manage", "root", admin=True, scopes=("manage", "admin")),
    Caller("member's key of this network", "ann", ORGANISATION, networks=("127.0.0.0/8",)),
    Caller(
        "member's key of another network", "ann", ORGANISATION, networks=("10.0.0.0/8",),
        known=False,
    ),
    Caller("member's expired key", "ann", ORGANISATION, expired=True, known=False),
)  # fmt: skip

TOPIC_GRANTS = {
    PUTTER: Right.PUT,
    "getter": Right.GET,
    "describer": Right.DESCRIBE,
    "friend": Right.PUT | Right.GET | Right.DESCRIBE,
    "CLfriends": Right.GET | Right.DESCRIBE,
    "CIfriends": Right.PUT | Right.GET,
    "CItables": Right.PUT | Right.DESCRIBE,
}
# Every right on a table includes the right to describe it.
TABLE_GRANTS = {
    PUTTER: Right.WRITE | Right.DESCRIBE,
    "getter": Right.READ | Right.DESCRIBE,
    "describer": Right.DESCRIBE,
    "friend": Right.READ | Right.WRITE | Right.DESCRIBE,
    "CLfriends": Right.READ | Right.DESCRIBE,
    "CIfriends": Right.READ | Right.WRITE | Right.DESCRIBE,
    "CItables": Right.ALL,
    "CIquota": Right.DESCRIBE,
}
APP_RIGHTS = {
    PUTTER: ["app-write"],
    "getter": ["app-read"],
    "friend": ["app-read", "app-write"],
}
TEAM_RIGHTS = {
    "describer": ["describe-admin"],
    "CLfriends": ["read"],
    "CIfriends": ["read", "write"],
    "CItables": ["admin"],
    "CIquota": ["quota-admin"],
}
