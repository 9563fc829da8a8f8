"""Administration for asyncio."""
