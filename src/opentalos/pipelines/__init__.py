"""PySpark data source and pipelines over the SDK.

``session.open_session`` opens a Spark session that knows ``format("talos")`` (``datasource``).
``registry`` has the pipelines by name; each has a room with its ``pipeline.py``. ``runtime`` runs
them. Nothing here imports the server.
"""
