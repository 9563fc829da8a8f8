"""The Python client, sync and async, over wire and model; nothing of the server side."""
