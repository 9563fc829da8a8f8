"""Protocol front ends that only translate: thrift_http; later sds_http, kafka, rest, console."""
