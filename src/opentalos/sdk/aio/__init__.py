"""The asyncio client. Errors, values and configuration are those of ``opentalos.sdk``."""

from opentalos.sdk.aio.client import Client

__all__ = ["Client"]
