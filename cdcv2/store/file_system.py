"""Looking at files: a file that cannot be looked at is an error, never a missing file.

``Path.exists`` and ``Path.glob`` treat a file without permission as missing, or raise an error that is none of ours.
For a log that would mean a table that is silently missing; so here it is UnavailableError, with the path.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

from cdcv2.errors import UnavailableError, UsageError

_NUMBER = re.compile(r"^\[Errno -?\d+\] ")


def is_there(path: Path) -> bool:
    """Whether there is a file or a directory. Raises UnavailableError where that cannot be known."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as cause:
        raise unreadable(path, cause) from cause
    return True


def names_in(folder: Path) -> list[str] | None:
    """What is in a directory, sorted; None where there is no directory. Raises UnavailableError for one not readable.

    >>> names_in(Path("/nowhere/at/all")) is None
    True
    """
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as cause:
        raise unreadable(folder, cause) from cause


def matching(folder: Path, pattern: str) -> list[Path]:
    """What ``Path.glob`` finds for a pattern without ``**``, sorted by parts. Raises UnavailableError as names_in."""
    found = [folder]
    for part in pattern.split("/"):
        found = [path / name for path in found for name in fnmatch.filter(names_in(path) or [], part)]
    return found


def text_of(path: str | Path, what: str) -> str:
    """The text of a file that a user has named, with ``what`` it is in errors.

    Raises UsageError where there is no such file, or no text in it, and UnavailableError where it cannot be read.
    """
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as cause:
        raise UsageError(f"{what} cannot be read: it is no UTF-8 text: {cause}") from cause
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as cause:
        raise UsageError(f"{what} cannot be read: {in_words(cause)}; mend the path, or put the file there") from cause
    except OSError as cause:
        raise unreadable_part(what, cause) from cause


def in_words(error: Exception) -> str:
    """What is wrong with a file, in the system's words, without the number that it has for that.

    >>> in_words(FileNotFoundError(2, "No such file or directory", "shop.yaml"))
    "No such file or directory: 'shop.yaml'"
    """
    return _NUMBER.sub("", str(error))


def unreadable(path: Path, cause: OSError) -> UnavailableError:
    """The error about a path that cannot be looked at."""
    return UnavailableError(f"{path} cannot be read: {cause.strerror or cause}; {_remedy(cause)}")


def unreadable_part(what: str, cause: OSError) -> UnavailableError:
    """The error about a file of a whole, which is ``what``: a log or a remap.

    >>> str(unreadable_part("the log orders", IsADirectoryError(21, "Is a directory", "1.avro")))
    "the log orders cannot be read: Is a directory: '1.avro'; move the directory away, and bring the file back"
    """
    return UnavailableError(f"{what} cannot be read: {in_words(cause)}; {_remedy(cause)}")


def _remedy(cause: OSError) -> str:
    if isinstance(cause, IsADirectoryError):
        return "move the directory away, and bring the file back"
    if isinstance(cause, PermissionError):
        return "grant the right to, or start it as who may"
    return "see to the disk or the file system, and start again"
