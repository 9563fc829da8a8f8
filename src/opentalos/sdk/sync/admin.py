"""Administration for synchronous code, derived from ``opentalos.sdk.aio.admin``."""

from opentalos.sdk.aio import admin
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.sync.blocking import BoundObject, ClientObject, blocking
from opentalos.sdk.sync.client import Client


class TopicAdmin(BoundObject[admin.TopicAdmin]):
    """Topics and their attributes. Name a topic by its name, or by what ``create`` returned."""

    create = blocking(admin.TopicAdmin.create)
    describe = blocking(admin.TopicAdmin.describe)
    list = blocking(admin.TopicAdmin.list)
    change = blocking(admin.TopicAdmin.change)
    delete_attribute = blocking(admin.TopicAdmin.delete_attribute)
    set_owner = blocking(admin.TopicAdmin.set_owner)
    delete = blocking(admin.TopicAdmin.delete)


class PermissionAdmin(BoundObject[admin.PermissionAdmin]):
    """Permissions on a topic. A grantee given as a string is a developer."""

    grant = blocking(admin.PermissionAdmin.grant)
    revoke = blocking(admin.PermissionAdmin.revoke)
    list = blocking(admin.PermissionAdmin.list)
    get = blocking(admin.PermissionAdmin.get)


class QuotaAdmin(BoundObject[admin.QuotaAdmin]):
    """Limits of users and topics, and partition quotas of organisations.

    Limits of users, and decisions on requests, are for service administrators.
    """

    own = blocking(admin.QuotaAdmin.own)
    topic = blocking(admin.QuotaAdmin.topic)
    set_topic = blocking(admin.QuotaAdmin.set_topic)
    reset_topic = blocking(admin.QuotaAdmin.reset_topic)
    users = blocking(admin.QuotaAdmin.users)
    set_user = blocking(admin.QuotaAdmin.set_user)
    reset_user = blocking(admin.QuotaAdmin.reset_user)
    apply = blocking(admin.QuotaAdmin.apply)
    list = blocking(admin.QuotaAdmin.list)
    pending = blocking(admin.QuotaAdmin.pending)
    approve = blocking(admin.QuotaAdmin.approve)
    revoke = blocking(admin.QuotaAdmin.revoke)


class GroupAdmin(BoundObject[admin.GroupAdmin]):
    """Consumer groups of a topic."""

    list = blocking(admin.GroupAdmin.list)
    lag = blocking(admin.GroupAdmin.lag)
    lags = blocking(admin.GroupAdmin.lags)
    workers = blocking(admin.GroupAdmin.workers)
    delete = blocking(admin.GroupAdmin.delete)


class TalosAdmin(ClientObject[admin.TalosAdmin]):
    """Administers topics, permissions, quotas and consumer groups, and looks up offsets.

    Any thread may use it, also in a forked child.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        super().__init__(client, admin.TalosAdmin)
        self.topics = TopicAdmin(self._client, admin.TopicAdmin)
        self.permissions = PermissionAdmin(self._client, admin.PermissionAdmin)
        self.quotas = QuotaAdmin(self._client, admin.QuotaAdmin)
        self.groups = GroupAdmin(self._client, admin.GroupAdmin)

    offsets = blocking(admin.TalosAdmin.offsets)
    offsets_at = blocking(admin.TalosAdmin.offsets_at)
    preview = blocking(admin.TalosAdmin.preview)
    server_version = blocking(admin.TalosAdmin.server_version)
