"""Docstrings, comments, messages and pages say things in plain words: the field's term, where the field has one."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGE

ROOT = PACKAGE.parent
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


def test_texts_are_in_plain_words() -> None:
    """No file has one of these words, this one apart."""
    found = {path.relative_to(ROOT).as_posix(): refused(path) for path in read() if path != Path(__file__)}

    assert {} == {path: {word: REFUSED[word] for word in words} for path, words in found.items() if words}


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
