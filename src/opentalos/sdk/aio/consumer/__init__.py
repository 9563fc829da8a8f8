"""Consumers for asyncio."""
