"""Docstrings, comments, messages and pages say things in plain words: the field's term, where the field has one.

What does not hold it yet is counted in ``words_left.txt``, a line for each file. A file may have fewer of these words
than its line allows, and never more; ``python -m tests.test_words`` lowers the counts to what is there.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGE

ROOT = PACKAGE.parent
#: How many of these words each file still has: COUNT FILE.
LEFT = Path(__file__).with_name("words_left.txt")
#: How many they are in all. This number only goes down.
MOST = 0
#: The folders with code; of tests, too, as a test is read as a specification.
CODE = ("cdcv2", "streaming_jobs", "benchmarks", "tests")
#: Where a string with a space in it is a text for people; in tests it may be an example of anything.
MESSAGES = ("cdcv2", "streaming_jobs")
#: Words that no text may have, and what to say instead.
REFUSED = {
    "anew": "again, or a verb with re-: renumber, recreate, resnapshot",
    "nobody": "no process, no user, or the passive voice", "whoever": "the caller, the reader, a process that",
    "gone": "missing, deleted, lost",
    "hear": "receive", "hears": "receives", "heard": "received",
    "said": "stated, reported, declared", "say": "state, report, mean", "saying": "stating",
    "says": "states, reports, shows, means",
    "tell": "report, show, identify", "telling": "reporting", "tells": "reports, shows, identifies",
    "told": "reported, declared", "unsaid": "not stated", "untold": "undeclared",
    "regretted": "undone", "strangers": "nothing in common", "wholeness": "transactions that are whole",
    "nothing but": "only", "none but": "only", "by then": "at that time, in the meantime",
    "what is of": "the part of", "come of": "result from", "comes of": "results from", "came of": "resulted from",
}  # fmt: skip
_REFUSED = re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in REFUSED) + r")\b", re.IGNORECASE)
#: Examples, code and cross-references are quoted: their words are names.
_QUOTED = re.compile(
    r"^ *>>>.*\n(?:^(?! *$| *>>>).*\n?)*|```.*?```|:\w+:`[^`]*`|``[^`]*``|`[^`\n]*`|(?<=\])\([^()\s]*\)", re.M | re.S
)


def texts(path: Path) -> Iterator[str]:
    """The prose of a file: a page's, or the docstrings, comments and (of the product) messages of a module."""
    source = path.read_text("utf-8")
    if path.suffix != ".py":
        yield source
        return
    has_messages = path.relative_to(ROOT).parts[0] in MESSAGES if path.is_relative_to(ROOT) else True
    docstrings: set[ast.Constant] = set()
    # A part comes before what it has in it, so a docstring is known when it is met as a string.
    for node in ast.walk(ast.parse(source, str(path))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant() as docstring)]:
                    docstrings.add(docstring)
        elif has_messages and isinstance(node, ast.Constant) and node not in docstrings:
            # A word alone may be a name, or a key of a durable format.
            yield node.value if isinstance(node.value, str) and " " in node.value.strip() else ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def refused(path: Path) -> Counter[str]:
    """The refused words of a file, and how often it has each."""
    if not _REFUSED.search(path.read_text("utf-8")):
        # To find the comments of a file takes most of the time, and in most files there is nothing to judge.
        return Counter()
    found = (word for text in texts(path) for word in _REFUSED.findall(_QUOTED.sub(" ", text)))
    return Counter(re.sub(r"\s+", " ", word.lower()) for word in found)


def read() -> Iterator[Path]:
    """Every file that is judged. Decisions and CHANGELOG are history; programs write docs/mutation and docs/stress."""
    for folder in CODE:
        yield from sorted((ROOT / folder).rglob("*.py"))
    pages = *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "operations").glob("*.md")
    yield from sorted(page for page in pages if page.name != "CHANGELOG.md")


def left() -> dict[str, int]:
    """How many refused words each file may still have."""
    lines = [line.split() for line in LEFT.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {path: int(count) for count, path in lines}


def counted() -> dict[str, Counter[str]]:
    """The refused words of every file that has any."""
    own = Path(__file__)
    found = {path.relative_to(ROOT).as_posix(): refused(path) for path in read() if path != own}
    return {path: words for path, words in found.items() if words}


def test_texts_are_in_plain_words() -> None:
    """No file has more refused words than it had when it was counted; a new file has none."""
    allowed = left()
    worse = {path: words for path, words in counted().items() if sum(words.values()) > allowed.get(path, 0)}

    assert {} == {path: {word: REFUSED[word] for word in words} for path, words in worse.items()}


def test_what_is_left_of_words_only_becomes_less() -> None:
    """A count is not raised in silence: the sum stands in this file, too, and every listed file exists."""
    assert sum(left().values()) == MOST
    assert [] == [path for path in left() if not (ROOT / path).is_file()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""What nobody has told."""', {"nobody": 1, "told": 1}),
        ("x = 1  # as the record says", {"says": 1}),
        ('"""A state.\n\n    It is nothing\n    but a file."""', {"nothing but": 1}),
        ('said = "nobody"', {}),
        ('raise ValueError(f"row {row}: nobody says why")', {"nobody": 1, "says": 1}),
        ('"""``told`` is called, see :meth:`said`.\n\n>>> told(1)\n\'said\'\n"""', {}),
        ('"""Foretold, and hearsay."""', {}),
        ('"""As [it tells](told.md#anew)."""', {"tells": 1}),
    ],
)
def test_a_refused_word_is_seen_in_prose_alone(tmp_path: Path, text: str, expected: dict[str, int]) -> None:
    """The judge itself: names, single words in quotes and examples are no prose; messages are."""
    (tmp_path / "part.py").write_text(text, "utf-8")

    assert expected == refused(tmp_path / "part.py")


if __name__ == "__main__":
    before = left()
    now = {path: sum(words.values()) for path, words in counted().items()}
    lower = {path: min(count, now[path]) for path, count in before.items() if path in now}
    if sys.argv[1:] == ["--first"]:
        lower = now
    heading = "# Words that tests/test_words.py refuses, counted for each file. The counts only become lower.\n"
    rows = [f"{count} {path}\n" for path, count in sorted(lower.items(), key=lambda one: (-one[1], one[0]))]
    LEFT.write_text(heading + "".join(rows), "utf-8")
    print(f"MOST = {sum(lower.values())}")
