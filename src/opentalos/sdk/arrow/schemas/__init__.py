"""Decodes values of messages by their schema fingerprint: Avro and Protobuf to Arrow arrays.

Needs the extra ``avro`` or ``protobuf``, which is loaded where it is used.
"""
