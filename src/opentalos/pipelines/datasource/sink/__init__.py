"""Writes of ``format("talos")``: each task cuts its rows into blocks and puts them idempotently."""
