"""A credential closes what was made before there was one."""

import pytest
from tests.e2e.zookeeper.conftest import Opener

from opentalos.backends.zookeeper import ZookeeperBackend
from opentalos.model.errors import ConfigError

pytestmark = pytest.mark.backend


async def test_nodes_from_before_the_credential_are_closed_at_the_start(
    zookeeper: ZookeeperBackend, opened: Opener
) -> None:
    hosts = f"127.0.0.1:{zookeeper.ports['client']}"
    former = await opened(hosts)
    await former.create("principals/alice", b"a")
    await former.close()
    restricted = await opened(hosts, auth="digest:talos:secret")
    found = await restricted.get("principals/alice")
    assert found is not None
    await restricted.replace("principals/alice", b"b", found.version)
    with pytest.raises(ConfigError, match="refuses access"):
        await opened(hosts)
