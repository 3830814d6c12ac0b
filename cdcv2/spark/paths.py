"""A path of this machine's, as Spark takes it.

Hadoop reads a string as ``scheme:path``, and takes the path as it stands: nothing in it is decoded, so ``%20`` is
these three characters, and a space is a space. What is to be read is a pattern, in which ``* ? [ ] { }`` mean something
unless a backslash stands before them; what is to be written is a name. The scheme is given, as the file system of a
path without one is whatever the cluster's settings state.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from cdcv2.errors import UsageError
from cdcv2.spark.session import jvm

_PATTERN = re.compile(r"[*?\[\]{}\\]")


def writable(path: str | Path) -> str:
    """What Spark takes to write there, and for a checkpoint.

    >>> writable("/data/a b[1]")
    'file:/data/a b[1]'
    """
    # Two slashes at the start would be those before the name of a host.
    return "file:/" + str(Path(path).absolute()).lstrip("/")


def readable(path: str | Path) -> str:
    r"""What Spark takes to read what is there.

    >>> print(readable("/data/a b[1]"))
    file:/data/a b\[1\]
    """
    return _PATTERN.sub(r"\\\g<0>", writable(path))


def streamable(path: str | Path) -> str:
    """What Spark takes to read a directory as a stream.

    Raises UsageError for a character of patterns: of n files in a micro-batch, Spark reads each one n times then.

    >>> streamable("/data/a b")
    'file:/data/a b'
    """
    found = _PATTERN.search(str(path))
    if found:
        raise UsageError(
            f"the directory {path} has {found.group()} in its name: Spark takes it for a pattern, and a stream of its "
            "files would bring each of them again and again. Rename the directory, or name a symbolic link to it"
        )
    return writable(path)


def nameable(spark: SparkSession, *paths: str | Path) -> None:
    """Raise UsageError unless Java can name these files, and Hadoop find them.

    Java cannot where its locale has no such characters, and Hadoop not a colon within a pattern.
    """
    for path in paths:
        full = str(Path(path).absolute())
        found = _PATTERN.search(full)
        if found and ":" in full:
            raise UsageError(
                f"the path {full!r} has both a colon and {found.group()!r}: Hadoop takes it for a pattern, in which it "
                "can have no colon. Rename it, or what is called like it"
            )
        try:
            str(path).encode()
            jvm(spark).java.io.File(str(path)).toPath()
        except (UnicodeEncodeError, IllegalArgumentException):
            raise UsageError(
                f"the path {str(path)!r} has characters that Java has no name for: start the job, and Spark on every "
                "machine, with LC_ALL=C.UTF-8; if that is so already, rename it"
            ) from None
