"""What the asyncio and the synchronous client share; no I/O."""
