"""Ctrl-C while the command still imports its modules: one line and exit code 130, as later on, and no traceback.

A hook for what nothing caught needs no import, so it is there first. Then a handler ends the process itself: an
interrupt that is raised within an import can end as another error, or be printed and ignored.
"""

import os
import sys

TYPE_CHECKING = False  # not from typing, before which this module has to be there
if TYPE_CHECKING:
    from types import FrameType, TracebackType

#: As cdcv2.exits.Exit has it. That module imports others, before which this one has to answer.
_INTERRUPTED = 130


def answer() -> None:
    """If this process is the command, end it so at an interrupt that nothing else answers, until :func:`leave`."""
    if not _is_command():
        return
    _hook()
    import signal

    # A process that is to ignore Ctrl-C, as one behind nohup, has another one.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _receive)


def leave() -> None:
    """From now on an interrupt is raised: the command is imported, and answers it."""
    import signal

    if signal.getsignal(signal.SIGINT) is _receive:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _hook() -> None:
    before = sys.excepthook

    def end(kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None") -> None:
        if not issubclass(kind, KeyboardInterrupt):
            before(kind, error, trace)
            return
        _end()

    sys.excepthook = end


def _receive(number: int, frame: "FrameType | None") -> None:
    _end()


def _end() -> None:
    # Not by print: the signal may come within one.
    try:
        os.write(2, b"cdcv2: interrupted\n")
    except OSError:
        pass  # it is closed
    os._exit(_INTERRUPTED)


def _is_command() -> bool:
    """Whether it was started as ``cdcv2`` or ``python -m cdcv2``, and did not import the package for itself."""
    module = sys.orig_argv[1:3] == ["-m", "cdcv2"]
    return os.path.basename(sys.argv[0] if sys.argv else "") == "cdcv2" or module


# When it is imported: so it is there before the next import.
answer()
