"""Connections, attempts, signatures and structs of the asyncio client."""
