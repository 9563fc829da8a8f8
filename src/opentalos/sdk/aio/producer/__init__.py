"""Producers for asyncio."""
