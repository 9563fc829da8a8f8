"""Nodes that were made without a credential are closed once there is one."""

from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import GetACL, GetChildren, SetACL
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_digest_acl

from opentalos.adapters.zookeeper.access import close_open_nodes
from opentalos.model.errors import StoreUnavailable

OURS = [make_digest_acl("talos", "secret", all=True)]
FOREIGN = [make_digest_acl("other", "secret", all=True)]


class Tree:
    """Znodes with their ACLs; one of another user answers nothing."""

    def __init__(self, acls: dict[str, Any]) -> None:
        self.acls = acls
        self.gone = ""

    async def read(self, *requests: Any) -> Any:
        (request,) = requests
        if self.acls.get(request.path) is FOREIGN:
            raise StoreUnavailable("no access") from NoAuthError()
        if request.path == self.gone:
            raise NoNodeError
        if isinstance(request, SetACL):
            assert request.acls == list(CREATOR_ALL_ACL)
            self.acls[request.path] = OURS
            return None
        if isinstance(request, GetACL):
            return self.acls[request.path], None
        assert isinstance(request, GetChildren)
        start = request.path + "/"
        return [
            path.removeprefix(start)
            for path in self.acls
            if path.startswith(start) and "/" not in path.removeprefix(start)
        ]


async def test_open_nodes_below_the_root_are_closed_and_others_left_alone() -> None:
    tree = Tree(
        {
            "/other": OPEN_ACL_UNSAFE,
            "/t": OPEN_ACL_UNSAFE,
            "/t/principals": OURS,
            "/t/principals/alice": OPEN_ACL_UNSAFE,
            "/t/foreign": FOREIGN,
            "/t/gone": OPEN_ACL_UNSAFE,
            **{f"/t/topics-{number}": OPEN_ACL_UNSAFE for number in range(100)},
        }
    )
    tree.gone = "/t/gone"
    assert await close_open_nodes(tree, "/t", CREATOR_ALL_ACL) == 102
    assert tree.acls["/t/principals/alice"] is OURS
    assert tree.acls["/other"] is OPEN_ACL_UNSAFE
    assert tree.acls["/t/foreign"] is FOREIGN
    assert await close_open_nodes(tree, "/t", CREATOR_ALL_ACL) == 0
