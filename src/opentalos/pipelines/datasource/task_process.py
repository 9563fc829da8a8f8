"""What the Python process of Spark's tasks does between them."""

import gc

from pyspark import TaskContext


def keep_imports_out_of_collections() -> None:
    """Call at the end of a task; acts once in each process, and only in Spark's workers.

    Spark's worker collects garbage after every task, in which it visits all objects of all imported
    modules: 50 ms, as long as a small task takes. What is alive after the first task mostly stays
    until the process ends, so later collections leave it out. Memory is still freed by reference
    counts; only cycles among those objects are not.
    """
    if TaskContext.get() is not None and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
