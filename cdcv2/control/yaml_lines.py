"""A YAML file of settings whose every part knows its line: an error names the place where to mend it.

Scalars are text until a reader asks for something else, so ``country: no`` is no falsehood. ``${NAME}`` in a text is
the environment's, for secrets; ``$${`` is ``${``, and any other ``${`` is an error: it would be taken for the secret.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cdcv2.errors import MalformedError, MissingExtraError, UsageError
from cdcv2.store.file_system import text_of
from cdcv2.store.numbered import path_to_read
from cdcv2.store.postgres_session import beside
from cdcv2.suggestions import meant

T = TypeVar("T")
_JSON = re.compile(r"true|false|null|-?(0|[1-9]\d{0,17})(\.\d{1,17})?", re.ASCII)
_VARIABLE = re.compile(r"\$(\$\{|\{(?:(\w+)\})?)")
_SPAN = re.compile(r"([1-9]\d{0,5})\s*([smhd])")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# How deep a file may be nested.
_DEEPEST = 100


def load(path: str | Path) -> YamlNode:
    """The file's one document. Raises UsageError for a file that is not there or is no YAML, UnavailableError."""
    try:
        import yaml
    except ImportError as cause:
        raise MissingExtraError("reading YAML needs PyYAML", "materialize") from cause
    text = text_of(path, str(path))
    try:
        # Only nodes are made of it, no objects: there is nothing that a file could have done.
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        line = mark.line + 1 if mark is not None else 1
        written = text.splitlines()[line - 1: line]
        hint = '; put "${NAME}" into quotes' if any("${" in one for one in written) else ""
        # Where the problem is half of a sentence, the context is the other half.
        half = f"{cause.context}, " if cause.context and str(cause.problem).startswith("but ") else ""
        raise UsageError(f"{path}, line {line}: no YAML: {half}{cause.problem or cause.context}{hint}") from cause
    except yaml.YAMLError as cause:
        raise UsageError(f"{path} is no YAML: {cause}") from cause
    except RecursionError:
        raise UsageError(f"{path} is nested more than {_DEEPEST} deep: no settings are") from None
    if node is None:
        raise UsageError(f"{path} is empty: it needs the settings that --help shows")
    whole = YamlNode(str(path), node)
    whole.demand_finite()
    return whole


class LineError(UsageError):
    """What is wrong in the file, with the line."""


class YamlNode:
    """A part of the file. Each way to read it raises UsageError, with the line, when it is something else."""

    def __init__(self, path: str, node: Any, name: str = "") -> None:
        # The name that it stands behind: a line may have several.
        self._path, self._node, self._name = path, node, name

    @property
    def line(self) -> int:
        """The line on which this part begins."""
        return int(self._node.start_mark.line) + 1

    def fail(self, text: object) -> NoReturn:
        """Raise UsageError with the line of this part."""
        raise LineError(self.place(text))

    def place(self, text: object) -> str:
        """The text behind the file and the line of this part."""
        return f"{self._path}, line {self.line}: {text}"

    def _fail_of(self, text: str) -> NoReturn:
        """The same, with the name of the setting."""
        self.fail(f"{self._name}: {text}" if self._name else text)

    def demand_finite(self) -> None:
        """Raise UsageError for what is part of itself, by an alias, or nested too deep."""
        seen: dict[int, int] = {}
        todo, inside = [(self._node, False)], list[int]()
        while todo:
            node, left = todo.pop()
            if left:
                inside.pop()
                continue
            if id(node) in inside:
                YamlNode(self._path, node).fail("this is part of itself, by an alias of it (*): write it out")
            if len(inside) >= _DEEPEST:
                YamlNode(self._path, node).fail(f"this is nested more than {_DEEPEST} deep: no settings are")
            if node.id == "scalar" or seen.get(id(node), -1) >= len(inside):
                continue
            seen[id(node)] = len(inside)
            inside.append(id(node))
            todo.append((node, True))
            below = node.value if node.id == "sequence" else [one for pair in node.value for one in pair]
            todo += [(one, False) for one in reversed(below)]

    def written(self) -> str:
        """What the file has here, without the values of the environment: the same text for the same settings."""
        import yaml

        return str(yaml.serialize(self._node, Dumper=yaml.SafeDumper))

    def made_by(self, make: Callable[[], T]) -> T:
        """What ``make`` returns; an error about its arguments is reported with the line of this part.

        An error that has a line has one of a part of this one, and keeps it.
        """
        try:
            return make()
        except LineError:
            raise
        except (UsageError, MalformedError) as cause:
            self.fail(cause)

    def with_text(self, text: str) -> YamlNode:
        """A text that the file leaves out, with the line of this part."""
        from yaml import ScalarNode

        written = text.replace("${", "$${")
        return YamlNode(self._path, ScalarNode("tag:yaml.org,2002:str", written, self._node.start_mark))

    @property
    def is_text(self) -> bool:
        """Whether it is a scalar."""
        return bool(self._node.id == "scalar")

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return bool(self._node.id == "sequence")

    def text(self) -> str:
        """A scalar as it stands there, with the environment's values in it."""
        if self._is_null:
            word = self._node.value
            remedy = f"write a text, or '{word}' in quotes" if word else "write it behind the colon"
            self.fail(f"a text is wanted here, and there is {self._found()}: {remedy}")
        if not self.is_text:
            self.fail(f"a text is wanted here, and there is {self._found()}")
        if _NO_TEXT.search(self._node.value):
            self._fail_of("this has a NUL character, or half a character of UTF-16, which no setting has: leave it out")
        return _VARIABLE.sub(self._variable, self._node.value)

    def conninfo(self) -> str:
        """The same, of a connection string of PostgreSQL: a password with a backslash, a quote or a blank is itself.

        A value is taken so where it stands behind ``KEYWORD=``. In a URL it has its own escapes, as it always had.
        """
        self.text()
        written, made, at = str(self._node.value), "", 0
        for found in _VARIABLE.finditer(written):
            made += written[at:found.start()]
            plain, at = self._variable(found), found.end()
            made += plain if found[2] is None else beside(made, plain, written[at:])
        return made + written[at:]

    def path(self, folder: Path) -> Path:
        """A path from that folder, or a ``file:`` URI; other addresses would be made as folders of their name."""
        if self.is_text and _NO_TEXT.search(self._node.value):
            self._fail_of(f"no path can have what is in {self._node.value!r}: write another one")
        text = self.text()
        if not text.strip():
            self._fail_of("a path is wanted here, and there is none: write one")
        if text.startswith("kafka:"):
            self._fail_of(f"a path is wanted here, and {text} is a topic: write a path")
        try:
            path = folder / path_to_read(text)
            path.stat()
        except (UsageError, MalformedError) as error:
            self._fail_of(str(error))
        except ValueError:
            self._fail_of(f"no path can have what is in {text!r}: write another one")
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                self._fail_of(f"{path} is no path here: {error.strerror}; write another one, or mend its links")
        return path

    def text_as(self, demand: Callable[[str], T]) -> T:
        """What ``demand`` makes of the text; a UsageError of it is reported with the line."""
        text = self.text()
        return self.made_by(lambda: demand(text))

    @property
    def _is_null(self) -> bool:
        return bool(self._node.tag == "tag:yaml.org,2002:null")

    def number(self, least: int = 0) -> int:
        """A whole number."""
        text = self.text()
        if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
            self.fail(f"a whole number from {least} on is wanted here, and there is {self._node.value!r}")
        return int(text)

    def flag(self) -> bool:
        """``true`` or ``false``."""
        text = self.text()
        if text not in ("true", "false"):
            self.fail(f"true or false is wanted here, and there is {self._node.value!r}")
        return text == "true"

    def seconds(self) -> float:
        """A span of time, as ``30m``."""
        text = self.text()
        found = _SPAN.fullmatch(text.strip())
        if found is None:
            self.fail(f"{text!r} is no span of time: write a number and s, m, h or d, as 30m")
        return float(int(found[1]) * _UNITS[found[2]])

    def plain(self) -> Any:
        """Whatever is there as plain JSON: what is not in quotes is a number, true, false or null where JSON has it so.

        What the environment fills in is text.
        """
        if self.is_list:
            return [item.plain() for item in self.items()]
        if not self.is_text:
            return {name: part.plain() for name, part in self.entries()}
        if self._node.style is None and _JSON.fullmatch(self._node.value):
            return json.loads(self._node.value)
        return self.text()

    def one_of(self, *words: str) -> str:
        """One of these words."""
        text = self.text()
        if text not in words:
            self.fail(f"{self._node.value!r} is none of {', '.join(words)}{meant(text, words)}")
        return text

    def items(self) -> list[YamlNode]:
        """The items of a list; of anything else, itself as the only one."""
        return [YamlNode(self._path, node, self._name) for node in self._node.value] if self.is_list else [self]

    def entries(self) -> list[tuple[str, YamlNode]]:
        """A mapping: names, each once, and what they have, in order."""
        if self._node.id != "mapping":
            self.fail(f"names with values are wanted here, and there is {self._found()}")
        found: dict[str, YamlNode] = {}
        for key, value in self._node.value:
            name = YamlNode(self._path, key).text()
            if name in found:
                YamlNode(self._path, key).fail(f"{name!r} is there twice")
            found[name] = YamlNode(self._path, value, name)
        return list(found.items())

    def fields(self, needed: str, optional: str = "") -> dict[str, YamlNode]:
        """A mapping with these names, and no others; those of ``needed`` all."""
        entries = dict(self.entries())
        known = [*needed.split(), *optional.split()]
        for name, part in entries.items():
            if name not in known:
                part.fail(f"{name!r} is not known here; known are {', '.join(known)}{meant(name, known)}")
        for name in needed.split():
            if name not in entries:
                self.fail(f"{name!r} is missing")
        return entries

    def texts(self) -> Iterator[str]:
        """The items of a list of texts, or the one text."""
        return (item.text() for item in self.items())

    def _variable(self, found: re.Match[str]) -> str:
        if found[1] == "${":
            return "${"
        if found[2] is None:
            self.fail("'${' begins ${NAME} of the environment, a name of letters, digits and _; write $${ for ${")
        if found[2] not in os.environ:
            self.fail(f"the environment has no {found[2]}; export it")
        return os.environ[found[2]]

    def _found(self) -> str:
        """What is there, in words; of a text, nothing is shown: it may be a password."""
        if not self.is_text:
            return "a list" if self.is_list else "a mapping"
        if not self._is_null:
            return "a text"
        return f"{self._node.value}, which is nothing in YAML" if self._node.value else "nothing"
