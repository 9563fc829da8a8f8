"""Sans-io codecs: Thrift, message formats and request signing; bytes in, values out."""
