"""Structured tables over Thrift and HTTP, as the SDS clients call them."""
