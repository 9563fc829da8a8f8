"""The other servers of a cluster over HTTP/1.1: pooled connections, calls signed with its key."""

from opentalos.adapters.peer_http.peers import HttpPeers, open_http_peers

__all__ = ["HttpPeers", "open_http_peers"]
