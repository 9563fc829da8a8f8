"""/metrics: counters that the server keeps anyway, in the text format of Prometheus."""
