"""The driver's connection to the server of a pipeline."""

from typing import Final

from opentalos.model.errors import ConfigError, RequestError, TalosError
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import ClientConfig, TalosAdmin
from opentalos.sdk.core.config import split_key, split_urls

_PROBE_S: Final = 2.0  # deadline of the probe


def client_config(settings: PipelineSettings, deadline_s: float) -> ClientConfig:
    """The SDK's configuration for the server of these settings. Raises: ConfigError."""
    key_id, secret = split_key(settings.key, "key")
    return ClientConfig(
        endpoints=split_urls(settings.url), key_id=key_id, secret=secret, deadline_s=deadline_s
    )


def outage_reason(settings: PipelineSettings) -> str:
    """Why the server is unavailable now; empty if it is available.

    Raises: RequestError: it rejects every request, for example because of a wrong key.
    """
    try:
        with TalosAdmin(client_config(settings, _PROBE_S)) as admin:
            admin.topics.list()
    except (ConfigError, RequestError):
        raise
    except TalosError as error:
        return str(error)
    return ""
