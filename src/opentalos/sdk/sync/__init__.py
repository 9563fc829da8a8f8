"""The synchronous client: the asyncio one on one loop thread of the process."""
