"""Documents lead where they should, in Markdown and in the code; and a text names what its function raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.import_graph import sources
from tests.test_architecture import PACKAGE, ROOT
from tests.test_names import named

#: A link of Markdown: its text may hold brackets of code, its target no blank.
LINK = re.compile(r"\]\(([^()\s]+)\)")
#: What a text or a comment of the code calls by its path.
NAMED = re.compile(r"\bdocs/[\w./-]*\w(?:#[\w-]+)?")
FENCE = re.compile(r"^(```+)[^`]*\n.*?^\1 *$", re.M | re.S)
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("tests/*/*.md")}
)
#: For readers who look for one thing; a record of a change, a decision or a run is of its time.
WRITTEN = [path for path in PAGES if not {"decisions", "mutation", "stress", "CHANGELOG.md"} & set(path.parts)]
#: The four questions that a newcomer must find answered, each by one page that README links by the question.
ASKED = {
    "What is a frontier?": "docs/how-it-works.md",
    "Which capture do I choose?": "docs/operations/choose-a-capture.md",
    "What happens when a column is added?": "docs/operations/columns.md",
    "Why does a table stand still?": "docs/operations/stands-still.md",
}
#: What the glossary has other words for.
OLD_WORDS = re.compile(r"\b(?:told|tells|said|anew|nobody|whoever|old rows?|row schemas?)\b", re.I)
#: What messages and helps have other words for: continue or resume, before-image, open-records log, manifest.
OLD_IN_MESSAGES = re.compile(r"\b(?:go|goes|went|going)\s+on\b|\bold\s+rows?\b|\bTEMP\b(?! TABLE)|\bnotes?\b")
#: The one in a schema that logs have; and the name of a step, which no user sees.
KEPT_MESSAGES = {
    "of begun: whether old rows are looked up in the tables", "the statement of TEMP is durable; no other is",
}
#: The demo has tables and a story of its own.
NOT_JUDGED = {"demo", "servers", "testing"}
#: The longest phrase that a cell of a table may hold.
WIDEST_CELL = 200


def name(path: Path) -> str:
    """The path as somebody in the checkout writes it."""
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """The text without its blocks of code."""
    return FENCE.sub("", text)


def anchors(page: Path) -> set[str]:
    """What a link to the page may name behind #, as GitHub makes it of headings; and the anchors that it sets."""
    text = prose(page.read_text("utf-8"))
    found: list[str] = re.findall(r'<a id="([^"]+)">', text)
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.M):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = sum(1 for one in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", one))
        found.append(f"{slug}-{count}" if slug in found else slug)
    return set(found)


def wrong(target: str, folder: Path, page: Path | None = None) -> str:
    """What a link of a page in the folder gets wrong; empty if it leads somewhere."""
    path, _, anchor = target.partition("#")
    place = (folder / path).resolve() if path else page
    if place is None or not place.exists():
        return f"no file {path}"
    if anchor and place.suffix == ".md" and anchor not in anchors(place):
        return f"no anchor #{anchor} in {path or 'this page'}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_page_leads_to_a_file_and_an_anchor(page: Path) -> None:
    """Of this checkout; those to the web are not followed."""
    targets = [one for one in LINK.findall(prose(page.read_text("utf-8"))) if "://" not in one]

    assert [] == [f"{one}: {why}" for one in targets if (why := wrong(one, page.parent, page))]


def test_every_page_that_the_code_names_is_there() -> None:
    """In errors, help, comments, tests and build files; a decision may be called by its number alone."""
    sources = [ROOT / "Makefile", ROOT / "setup.cfg", ROOT / "cdcv2/servers/jars.lock"]
    for folder in ("cdcv2", "streaming_jobs", "examples", "tests", "benchmarks"):
        sources += [path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    lost = []
    for path in sources:
        for found in NAMED.findall(path.read_text("utf-8")):
            numbered = re.fullmatch(r"docs/decisions/(\d{4})", found)
            if numbered and list((ROOT / "docs/decisions").glob(f"{numbered[1]}-*.md")):
                continue
            if why := wrong(found, ROOT):
                lost.append(f"{name(path)}: {why}")

    assert [] == lost


def test_a_wrong_link_is_seen(tmp_path: Path) -> None:
    """The judge itself: a file, an anchor, a heading that stands twice, and one inside a block of code."""
    page = tmp_path / "page.md"
    page.write_text("# A `b` (c)?\n\n## Two\n\n## Two\n\n```text\n# none\n```\n<a id=\"set\"></a>\n", "utf-8")

    assert {"a-b-c", "two", "two-1", "set"} == anchors(page)
    assert ["", "", "no anchor #none in page.md", "no file other.md"] == [
        wrong(one, tmp_path, page) for one in ("page.md#two-1", "#set", "page.md#none", "other.md")
    ]


def test_readme_links_a_page_by_each_question_of_a_newcomer() -> None:
    """In the words of the question; and the page begins with it, or has it as a heading."""
    rows = dict(re.findall(r"^\| (.+?) \| \[.+?\]\((.+?)\) \|$", (ROOT / "README.md").read_text("utf-8"), re.M))
    linked = {question: [page for asked, page in rows.items() if question in asked] for question in ASKED}

    assert {question: [page] for question, page in ASKED.items()} == linked
    for question, page in ASKED.items():
        assert question.lower() in (ROOT / page).read_text("utf-8").lower(), page


def test_a_contributor_finds_where_a_change_begins() -> None:
    """Each row names a file, and what it names in it is there; links are judged above."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Where a change begins")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    files = {task: LINK.findall(begins) for task, begins, _ in rows}
    named = [(LINK.findall(begins)[0], word) for _, begins, _ in rows for word in re.findall(r"`(\w+)`", begins)]
    lost = [(path, word) for path, word in named if f" {word}" not in (ROOT / path).read_text("utf-8")]

    assert len(files) == len(rows) > 6 and all(files.values())
    assert all(path.endswith(".py") for paths in files.values() for path in paths)
    assert [] == lost


def test_every_page_of_operations_is_in_the_index() -> None:
    """By a question; a page that no page names is not found."""
    index = (ROOT / "docs/operations.md").read_text("utf-8")
    pages = {f"operations/{path.name}" for path in (ROOT / "docs/operations").glob("*.md")}

    assert pages == {one.partition("#")[0] for one in LINK.findall(index) if one.startswith("operations/")}


def test_a_page_of_operations_begins_with_its_question() -> None:
    """It is what somebody looks for."""
    first = {name(path): path.read_text("utf-8").splitlines()[0] for path in (ROOT / "docs/operations").glob("*.md")}

    assert {} == {page: line for page, line in first.items() if not re.fullmatch(r"# [^?]+(: [^?]+)?\?", line)}


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    """Reports, states, again, a person who; but for what the program prints, words of before, and names of files."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", prose(page.read_text("utf-8")), flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith(("| begin anew |", "| old row |"))]

    assert [] == [line for line in lines if OLD_WORDS.search(line)]


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_no_cell_of_a_table_is_a_paragraph(page: Path) -> None:
    """What takes sentences stands below the table; a list of names is none."""
    rows = [line for line in prose(page.read_text("utf-8")).splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]

    assert [] == [cell for cell in cells if len(cell) > WIDEST_CELL and not re.fullmatch(r"[\w.-]+(, [\w.-]+)*", cell)]


def messages(path: Path) -> Iterator[str]:
    """The texts in a file of the package, but for those that only its readers see: of a command it is the help."""
    tree = ast.parse(path.read_text("utf-8"))
    scopes = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = {id(one.body[0]) for one in ast.walk(tree) if isinstance(one, scopes)}
    if path.parent.name != "cli":
        texts.add(id(tree.body[0]) if tree.body else 0)
    hidden = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr) and id(one) in texts}
    for one in ast.walk(tree):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in hidden:
            yield one.value


def test_messages_use_the_words_of_the_field() -> None:
    """Errors, helps, events and what is printed; a text that a value stands in the middle of is judged in parts."""
    judged = [path for path in sources(PACKAGE) if not NOT_JUDGED & set(path.relative_to(PACKAGE).parts)]
    found = [(name(path), one) for path in judged for one in messages(path) if OLD_IN_MESSAGES.search(one)]

    assert [] == [(path, one) for path, one in found if one not in KEPT_MESSAGES]


# -- what a function raises --------------------------------------------------------------------------------------------


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What is in the body of a function itself, and not in a function or a class in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield child
            yield from own_nodes(child)


def raised(function: ast.AST) -> set[str]:
    """The names of what the function raises by a name: ``raise Name(...)``."""
    given = [one.exc for one in own_nodes(function) if isinstance(one, ast.Raise)]
    return {one.func.id for one in given if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}


def only_checks(body: Iterable[ast.stmt]) -> bool:
    """Whether statements come to nothing unless they raise: they look, and keep what they see in own names."""
    for one in body:
        inner = [getattr(one, part, []) for part in ("body", "orelse")] if isinstance(one, (ast.If, ast.For)) else []
        text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        names = isinstance(one, ast.Assign) and all(isinstance(to, (ast.Name, ast.Tuple)) for to in one.targets)
        if not (text or names or isinstance(one, (ast.Raise, ast.Return)) or inner and all(map(only_checks, inner))):
            return False
    return True


def undocumented(package: Path = PACKAGE) -> list[str]:
    """Functions whose text does not name what they raise; and checks that do not state first when they raise it."""
    every = [(name, node) for name, node in named(package) if node is not None]
    parents = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for _, node in every if isinstance(node, ast.ClassDef)
    }

    def family(name: str) -> set[str]:
        return {name}.union(*map(family, parents.get(name, ())))

    found = []
    for name, node in every:
        text = "" if isinstance(node, ast.ClassDef) else ast.get_docstring(node)
        errors = {one for one in raised(node) if "Cdcv2Error" in family(one)}
        if not text or not errors or name.split(".")[0] in NOT_JUDGED:
            continue
        public = not any(part.startswith("_") for part in name.split("."))
        found += [f"{name}: {one}" for one in errors if public and not family(one) & set(re.findall(r"\w+", text))]
        assert not isinstance(node, ast.ClassDef)
        check = ast.unparse(node.returns or ast.Constant("")) == "None" and only_checks(node.body)
        always = isinstance(node.body[-1], ast.Raise)
        if check and not always and not re.match(r"Raise\b[^.]*\b(unless|if)\b|See :", text):
            found.append(f"{name}: Raise X unless ...")
    return sorted(found)


def test_a_text_names_what_its_function_raises() -> None:
    """The error, or one that it is a kind of; of a function that only checks, it begins "Raise X unless ..."."""
    assert [] == undocumented()


def test_a_text_that_names_no_error_is_seen(tmp_path: Path) -> None:
    """The judge itself: an error, a kind of one, a check that does not begin so, one that always raises, a private one.
    """
    (tmp_path / "part.py").write_text(
        "class Cdcv2Error(Exception): ...\n"
        "class Own(Cdcv2Error): ...\n"
        "def one() -> int:\n    'An int.'\n    raise Own('no')\n"
        "def two() -> int:\n    'An int. Raises Cdcv2Error if it is none.'\n    raise Own('no')\n"
        "def three(a: int) -> None:\n    'Look at it. Raises Own unless it is 1.'\n    if a != 1:\n"
        "        raise Own('no')\n"
        "def four(a: int) -> None:\n    'Raise Own unless it is 1.'\n    if a != 1:\n        raise Own('no')\n"
        "def five(a: int) -> None:\n    'A part that is not there. Raises Own.'\n    raise Own('no')\n"
        "def _six() -> int:\n    'An int.'\n    raise Own('no')\n",
        "utf-8",
    )

    assert ["part.one: Own", "part.three: Raise X unless ..."] == undocumented(tmp_path)
