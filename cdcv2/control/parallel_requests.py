"""Questions to servers that may not answer: all at once, each for so long and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeVar

from cdcv2.errors import Cdcv2Error, UnavailableError
from cdcv2.events import shown

Key = TypeVar("Key", bound=Hashable)


class Reply(NamedTuple):
    """What was answered; or why there is no answer; or neither, where nothing was asked.

    ``away``: the server did not answer, and not that its answer was an error.
    """

    value: Any = None
    error: str | None = None
    away: bool = False


#: Nothing was asked.
NOT_ASKED = Reply()


def ask_all(questions: Mapping[Key, Callable[[], Any]], seconds: float) -> dict[Key, Reply]:
    """The answers of all questions, each asked in a thread of its own.

    One that takes longer than ``seconds`` has no answer; its thread is left behind, and ends with the process. An error
    of ours is an answer, too; any other is raised.
    """
    answers: dict[Key, Reply] = {}
    mistakes: list[BaseException] = []

    def ask(key: Key, question: Callable[[], Any]) -> None:
        try:
            answers[key] = Reply(question())
        except Cdcv2Error as error:
            away = isinstance(error, UnavailableError) and not error.forbidden
            answers[key] = Reply(error=shown(str(error)), away=away)
        except Exception as error:
            mistakes.append(error)

    threads = [threading.Thread(target=ask, args=one, daemon=True) for one in questions.items()]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if mistakes:
        raise mistakes[0]
    late = Reply(error=f"it did not answer within {seconds:g} seconds: look again", away=True)
    return {key: answers.get(key, late) for key in questions}
