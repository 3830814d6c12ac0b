"""Names in the code hold the glossary: plain words, a noun for a class, one class for a name.

What does not hold it yet is in ``names_left.txt``, a line each with a reason; a line that is not needed any more fails,
and so does one that is new without the count :data:`MOST` being raised where a reviewer sees it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.import_graph import sources
from tests.test_architecture import PACKAGE

#: The names that still break a rule: RULE NAME # REASON.
LEFT = Path(__file__).with_name("names_left.txt")
#: How many they are. This number only goes down.
MOST = 5
#: Words that no name may have, and what to use instead.
REFUSED = {
    "again": "resnapshot, or retry", "anew": "resnapshot, renumbered, recreated, or retry", "asked": "requested",
    "began": "started", "begun": "started", "brief": "short", "came": "arrived, or complete", "gist": "summary",
    "gone": "missing, or deleted", "hear": "receive", "heard": "received", "knowns": "frontiers", "nobody": "none",
    "note": "manifest, or keep", "noted": "manifest", "notes": "manifests", "regretted": "undone",
    "remember": "restore", "remembered": "restored, or saved",
    "said": "reported", "say": "report, state or print", "says": "states",
    "seeks": "searches", "sought": "searched", "strangers": "nothing in common", "tell": "report", "tells": "reports",
    "told": "reported, declared, or partial change", "unbegun": "not started", "untold": "undeclared",
    "unwanted": "unexpected", "wanted": "requested", "wants": "needs", "wholeness": "transactions", "whoever": "who",
    "won": "accepted",
}  # fmt: skip
#: Participles that do not end in -ed or -ing. A class is a thing, and its last word is a noun.
PARTICIPLES = {
    "Again", "Become", "Begun", "Bound", "Broken", "Brought", "Built", "Came", "Chosen", "Come", "Done", "Drawn",
    "Found", "Given", "Gone", "Grown", "Heard", "Held", "Here", "Hidden", "Kept", "Known", "Left", "Lost", "Made",
    "Meant", "Met", "Said", "Seen", "Sent", "Shown", "Sought", "Stood", "Taken", "There", "Thrown", "Told", "Torn",
    "Unknown", "When", "Won", "Written",
}  # fmt: skip
#: Nouns that only look like participles.
NOUNS = {"Binding", "Finding", "Holding", "Staging"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def words(name: str) -> list[str]:
    """The words of an identifier, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    """Every class, function and method below the node, those inside functions included, by dotted name."""
    for child in ast.iter_child_nodes(node):
        inner = f"{prefix}.{child.name}" if isinstance(child, Definition) else prefix
        if isinstance(child, Definition):
            yield inner, child
        yield from definitions(child, inner)


def named(package: Path = PACKAGE) -> Iterator[tuple[str, Definition | None]]:
    """Every module (None), class, function and method of the package, by dotted name."""
    for path in sources(package):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        yield module, None
        yield from definitions(ast.parse(path.read_text("utf-8"), str(path)), module)


def is_participle(name: str) -> bool:
    """Whether the last word of a class's name is a participle, or an adverb: no thing."""
    last = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*", name)[-1:]
    return bool(last) and (last[0] in PARTICIPLES or last[0].endswith(("ed", "ing"))) and last[0] not in NOUNS


def is_no_noun(module: str) -> bool:
    """Whether a module is called by a participle, or by what is done; a command is called as its users type it."""
    own = words(module.rpartition(".")[2])
    participle = bool(own) and own[-1].capitalize() in PARTICIPLES
    return not module.startswith("cli.") and (participle or not {"go", "let"}.isdisjoint(own))


def broken(package: Path = PACKAGE) -> set[tuple[str, str]]:
    """Which names break which rule: ``word``, ``participle`` or ``twice``."""
    found: set[tuple[str, str]] = set()
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for name, node in named(package):
        own = name.rpartition(".")[2]
        if set(words(own)) & set(REFUSED):
            found.add(("word", name))
        if node is None and is_no_noun(name):
            found.add(("participle", name))
        if isinstance(node, ast.ClassDef):
            if is_participle(own):
                found.add(("participle", name))
            if not own.startswith("_"):
                classes[own].append(name)
    return found | {("twice", name) for names in classes.values() if len(names) > 1 for name in names}


def left() -> dict[tuple[str, str], str]:
    """The names that still break a rule, each with its reason."""
    lines = [line for line in LEFT.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    entries = [re.fullmatch(r"(word|participle|twice) ([\w.]+) +# (\S.*)", line) for line in lines]
    assert [] == [line for line, entry in zip(lines, entries) if entry is None]
    return {(entry[1], entry[2]): entry[3] for entry in entries if entry is not None}


def test_every_name_is_in_plain_words() -> None:
    """No refused word, no participle as a class, no class of one name for two things; but for what is listed."""
    now, listed = broken(), set(left())

    assert {} == {f"{rule}: {name}": advice(rule, name) for rule, name in now - listed}
    assert set() == listed - now, "these hold the rules now: remove their lines, and lower MOST"


def advice(rule: str, name: str) -> str:
    """What to do about a name."""
    if rule == "word":
        own = words(name.rpartition(".")[2])
        return "; ".join(f"not {word!r} but {REFUSED[word]}" for word in own if word in REFUSED)
    return "a noun that names the thing" if rule == "participle" else "a name of its own, or one class"


def test_what_is_left_only_becomes_less() -> None:
    """An exception is not added in silence: it raises this number, and its line states why."""
    assert len(left()) == MOST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class Held: ...", {("participle", "part.Held")}),
        ("class LogRemembered: ...", {("participle", "part.LogRemembered"), ("word", "part.LogRemembered")}),
        ("class BoundRanges: ...", set()),
        ("class Plan:\n    def told(self): ...", {("word", "part.Plan.told")}),
        ("def say():\n    def hear(): ...", {("word", "part.say"), ("word", "part.say.hear")}),
        ("if True:\n    class Twin: ...\nelse:\n    class Twin: ...", {("twice", "part.Twin")}),
        ("class Binding: ...\ndef foretold(): ...", set()),
    ],
)
def test_a_name_that_breaks_a_rule_is_seen(tmp_path: Path, text: str, expected: set[tuple[str, str]]) -> None:
    """The judge itself, on a package of one module."""
    (tmp_path / "part.py").write_text(text, "utf-8")

    assert expected == broken(tmp_path)


def test_a_module_is_judged_by_its_name_too(tmp_path: Path) -> None:
    """And only its own word: a folder is judged as what it is. A command may be called as its users ask."""
    for module in ("heard.py", "held.py", "let_go.py", "held_digests.py", "cli/when.py"):
        (tmp_path / module).parent.mkdir(exist_ok=True)
        (tmp_path / module).write_text("def one(): ...", "utf-8")

    assert {("word", "heard"), *(("participle", name) for name in ("heard", "held", "let_go"))} == broken(tmp_path)
