"""Structured tables for asyncio: their rows and their administration.

Values such as ``Put`` and ``TableSpec`` are in ``opentalos.sdk.tables``.
"""

from opentalos.sdk.aio.tables.table_admin import TableAdmin
from opentalos.sdk.aio.tables.talos_table import TalosTable

__all__ = ["TableAdmin", "TalosTable"]
