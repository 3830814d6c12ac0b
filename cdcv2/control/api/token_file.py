"""The token of the API: a secret in a file that only its owner may read."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from pathlib import Path

from cdcv2.errors import OutputError, UsageError
from cdcv2.store.put_if_absent import link

#: The name of the file in a state folder, where no other is named.
TOKEN_FILE = "api.token"
#: A shorter token could be found by trying.
SHORTEST = 16
#: More is no token.
_LONGEST = 1024


def token_of(path: Path) -> str:
    """The token in the file, which is made with a new one where it is not there.

    Raises UsageError for a file that other users may read or change, or that holds no token; OutputError where it
    cannot be made or read. No error has its content.
    """
    try:
        if not path.exists():
            _make(path)
    except OSError as error:
        raise _unusable(path, error) from None
    return token_in(path)


def token_in(path: Path) -> str:
    """The token in a file that is there. Raises what :func:`token_of` raises."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            _demand_own(path, found)
            content = file.read(_LONGEST + 1)
    except OSError as error:
        raise _unusable(path, error) from None
    token = _parsed(path, content)
    # Last, as its remedy is for a token alone: another file was named by mistake.
    _demand_private(path, found)
    return token


def _unusable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"the token file {path} cannot be used: {error.strerror or error}; grant the rights, or name another with "
        "--token-file"
    )


def _make(path: Path) -> None:
    number, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with open(number, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # Another process may have made it in between: then its token counts.
        link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _demand_own(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"the token file {path} is no regular file: name one with --token-file")
    if found.st_uid not in (0, os.geteuid()):
        raise UsageError(
            f"the token file {path} belongs to the user {found.st_uid}, and this process is of {os.geteuid()}: name a "
            "file of its own with --token-file"
        )


def _demand_private(path: Path, found: os.stat_result) -> None:
    if found.st_mode & 0o077:
        raise UsageError(
            f"the token file {path} has the mode {stat.S_IMODE(found.st_mode):04o}, so other users may use the token: "
            f"chmod 600 {path}, and if others have read it, remove it for a new one"
        )


def _parsed(path: Path, content: bytes) -> str:
    text = content.decode("ascii", "replace").strip()
    plain = text.isascii() and text.isprintable() and not any(letter.isspace() for letter in text)
    if not plain or not SHORTEST <= len(text) <= _LONGEST:
        raise UsageError(
            f"the token file {path} holds no token, which is one line of {SHORTEST} to {_LONGEST} ASCII letters "
            "without blanks: name another with --token-file; one that is not there is made"
        )
    return text
