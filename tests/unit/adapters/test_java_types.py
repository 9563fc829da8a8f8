"""Which Java types are made before threads call; what JPype does is in tests/e2e."""

from opentalos.adapters import hbase, hdfs
from opentalos.adapters.java_types import _CONSTRUCTOR, _METHOD, _names_in

# As Arrays.toString shows what Class.getMethods and getConstructors return.
METHODS = (
    "[public org.apache.hadoop.fs.FSDataInputStream org.apache.hadoop.fs.FileSystem.open("
    "org.apache.hadoop.fs.PathHandle) throws java.io.IOException,java.lang.Error, "
    "public default void a.B$C.m(), public static final native byte[][] a.B.get(int,byte[])]"
)
CONSTRUCTORS = "[public a.B(java.net.URI,java.lang.Object[]) throws a.X, protected a.B$C()]"


def test_names_of_calls_are_found_in_methods_functions_and_context_managers() -> None:
    of_hdfs = set(_names_in(hdfs.__name__))
    of_hbase = set(_names_in(hbase.__name__))
    # HdfsClient.open_reader, _Staging.load and java_configuration; HbaseClient.scan.
    assert {"open", "readFully", "invokeWithArguments", "addResource"} <= of_hdfs
    assert {"withStartRow", "checkAndMutate", "copyToNewByteArray"} <= of_hbase
    assert "withStartRow" not in of_hdfs


def test_a_java_class_is_read_from_one_text() -> None:
    assert _METHOD.findall(METHODS) == [
        ("org.apache.hadoop.fs.FSDataInputStream", "open", "org.apache.hadoop.fs.PathHandle"),
        ("void", "m", ""),
        ("byte", "get", "int,byte[]"),
    ]
    assert _CONSTRUCTOR.findall(CONSTRUCTORS) == [
        ("", "", "java.net.URI,java.lang.Object[]"),
        ("", "", ""),
    ]
