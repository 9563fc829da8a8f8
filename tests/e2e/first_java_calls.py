"""Every call of the HDFS and HBase clients for the first time, from many threads at once.

usage: python -m tests.e2e.first_java_calls HDFS_URL HDFS_CONF_DIR HBASE_URL JARS
In a process of its own, where JPype's window between a type and its conversions, some microseconds
wide, is as wide as WINDOW_S. Prints parameter types that a thread could still have to make.
"""

import asyncio
import contextlib
import importlib
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import jpype
from tests.waiting import elapse, limit_s

from opentalos.adapters.hbase import HbaseRowStore, open_hbase_row_store
from opentalos.adapters.hdfs import HdfsFileStore, open_hdfs_file_store
from opentalos.adapters.java_types import _METHOD, java_types
from opentalos.model.errors import TalosError
from opentalos.model.limits import HbaseLimits, HdfsLimits, JvmLimits
from opentalos.model.message import Durability
from opentalos.ports.row_store import FamilyName, RowMutation

_jpype: Any = importlib.import_module("_jpype")
AT_ONCE = 8
WINDOW_S = 0.02
PACKAGES = ("opentalos.adapters.hdfs", "opentalos.adapters.hbase")
# JPype makes them beside a class that we use; we have no object of them. They have a cancel, as
# tasks of asyncio have.
NO_OBJECT_OF_OURS = (
    "org.apache.hadoop.hdfs.DFSClient$Renewer",
    "org.apache.hadoop.security.token.TokenRenewer",
)
SIZES = (100, 20_000, 600_000)  # of commits: copied, through shared memory, in several pieces


def widen_the_window() -> None:
    """JPype calls this when others see the type already; it sets the conversions."""
    finish = _jpype._jclassPost

    def late(*args: Any) -> Any:
        elapse("other threads find the type before its conversions", WINDOW_S)
        return finish(*args)

    _jpype._jclassPost = late


async def each(call: Callable[[int], Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*(call(number) for number in range(AT_ONCE)))


async def refused(call: Awaitable[Any]) -> None:
    with contextlib.suppress(TalosError):
        await call
        raise AssertionError("it was not refused")


async def use_files(store: HdfsFileStore) -> None:
    files = await each(lambda n: store.create(f"a/{n}", durability=Durability.SYNCED))
    for size in SIZES:
        await each(lambda n, size=size: files[n].commit([bytes(size)]))  # type: ignore[misc]
    await each(lambda n: store.read(f"a/{n}", position=0, bytes_max=9))
    await each(lambda n: store.list("a"))
    await each(lambda n: refused(store.read("b", position=0, bytes_max=9)))
    await each(
        lambda n: store.recover(f"a/{n}", deadline_s=limit_s()) if n % 2 else files[n].close()
    )
    await each(lambda n: refused(files[n].commit([b"late"])))
    await each(lambda n: store.delete(f"a/{n}"))
    await each(lambda n: store.space())


async def use_rows(store: HbaseRowStore) -> None:
    table, keys = uuid.uuid4().hex, [b"%d" % number for number in range(AT_ONCE)]

    def change(key: bytes, expected: int, **what: Any) -> RowMutation:
        return RowMutation(key=key, expected=expected, write_id=uuid.uuid4().bytes, **what)

    both = {"data": {b"a": b"1", b"b": b"2"}, "pending": {b"a": b"3"}}
    await asyncio.gather(store.open_table(table, splits=[b"4"]), store.open_table(f"{table}-one"))
    await each(lambda n: store.mutate(table, change(keys[n], 0, **both)))
    await each(lambda n: store.mutate(table, change(keys[n], 1, data={b"a": None})))
    await each(lambda n: refused(store.mutate(table, change(keys[n], 1, data={b"a": b"4"}))))
    many = [[change(b"%d-%d" % (n, m), 0, **both) for m in range(20)] for n in range(AT_ONCE)]
    await each(lambda n: store.mutate_many(table, many[n]))
    await each(lambda n: store.get(table, keys, family=FamilyName.PENDING))
    await each(lambda n: store.scan(table, b"", b"", limit=99, reverse=n % 2 == 0))
    await each(lambda n: store.mutate(table, change(keys[n], 2, delete=True)))
    await each(lambda n: refused(store.get("absent", keys)))
    await asyncio.gather(store.drop_table(table), store.drop_table(f"{table}-one"))


def made() -> set[str]:
    return set(_jpype._hints)


def left_to_threads(before: set[str]) -> set[str]:
    """Parameter types of our calls, of all objects that we had by now, not made ``before``."""
    types = [java_types(package) for package in PACKAGES]
    called = frozenset[str]().union(*(type_._called for type_ in types))
    passed = {name for type_ in types for name in type_._made - type_._known}  # never called by us
    arrays, left = jpype.JClass("java.util.Arrays"), set()
    for name in made():
        with contextlib.suppress(TypeError):  # a class that is made in Python only
            java_class = jpype.JClass(name).class_
            had = name.startswith("org.apache.hadoop.") and not name.endswith("Exception")
            had = had and str(java_class.getName()) not in NO_OBJECT_OF_OURS
            if had and str(java_class.getName()).partition("$")[0] not in passed:
                texts = _METHOD.findall(str(arrays.toString(java_class.getMethods())))
                named = [parameters for _, called_as, parameters in texts if called_as in called]
                left |= {part.replace("$", ".") for text in named for part in text.split(",")}
    return {item for item in left - before if "." in item}


async def main(hdfs_url: str, conf_dir: str, hbase_url: str, jars: str) -> None:
    jvm = JvmLimits(jars=jars)
    limits = HdfsLimits(replication=1, conf_dir=conf_dir)
    files = await open_hdfs_file_store(f"{hdfs_url}/e2e/{uuid.uuid4().hex}", jvm, limits)
    rows = await open_hbase_row_store(
        f"{hbase_url}/e2e", jvm, HbaseLimits(call_timeout_s=limit_s())
    )
    before = made()
    await asyncio.gather(use_files(files), use_rows(rows))
    sys.stdout.write(f"left to threads: {sorted(left_to_threads(before))}\n")
    await files.close()
    await rows.close()


if __name__ == "__main__":
    widen_the_window()
    asyncio.run(main(*sys.argv[1:]))
