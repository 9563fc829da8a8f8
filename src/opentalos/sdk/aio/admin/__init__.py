"""Administration for asyncio: topics, permissions, quotas, consumer groups, offsets, previews."""

from opentalos.sdk.aio.admin.group_admin import GroupAdmin
from opentalos.sdk.aio.admin.permission_admin import PermissionAdmin
from opentalos.sdk.aio.admin.quota_admin import QuotaAdmin
from opentalos.sdk.aio.admin.talos_admin import TalosAdmin
from opentalos.sdk.aio.admin.topic_admin import TopicAdmin

__all__ = ["GroupAdmin", "PermissionAdmin", "QuotaAdmin", "TalosAdmin", "TopicAdmin"]
