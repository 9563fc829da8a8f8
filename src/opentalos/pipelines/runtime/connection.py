"""How pipelines reach their server from the driver."""

from typing import Final

from opentalos.model.errors import ConfigError, RequestError, TalosError
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import ClientConfig, TalosAdmin
from opentalos.sdk.core.config import split_key, split_urls

_REACH_S: Final = 2.0  # for one question to the server


def client_config(settings: PipelineSettings, deadline_s: float) -> ClientConfig:
    """How the SDK reaches the server of these settings. Raises: ConfigError."""
    key_id, secret = split_key(settings.key, "key")
    return ClientConfig(
        endpoints=split_urls(settings.url), key_id=key_id, secret=secret, deadline_s=deadline_s
    )


def reach(settings: PipelineSettings) -> str:
    """Why the server cannot be used now; empty if it can.

    Raises: RequestError: it answers and will always refuse, as with a wrong key.
    """
    try:
        with TalosAdmin(client_config(settings, _REACH_S)) as admin:
            admin.topics.list()
    except (ConfigError, RequestError):
        raise
    except TalosError as error:
        return str(error)
    return ""
