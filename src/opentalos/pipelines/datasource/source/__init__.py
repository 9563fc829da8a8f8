"""Reads of ``format("talos")``: the driver plans offset ranges, tasks read them."""
