"""Captures by commit times and captures on a remap release in two orders, and judge by one set of rules.

What contradicts a source is decided in a few modules. Both ways ask them, most of it through the trackers that they
share. A rule that only one way asks is a rule that the other may lack: each is named here, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import cdcv2
from tests.import_graph import sources

PACKAGE = Path(cdcv2.__file__).parent
#: The modules that decide what contradicts a source.
RULES = {
    "capture/row_identity.py", "capture/snapshot/rules.py", "capture/snapshot/run_rules.py",
    "capture/transaction_contradictions.py",
}
#: What one way has alone, by its modules.
BY_COMMIT_TIMES = {"capture/commit_transactions.py", "capture/engine.py", "capture/open_rows.py"}
ON_A_REMAP = {
    "capture/bound_facts.py", "capture/bound_transaction.py", "capture/bound_transactions.py",
    "capture/snapshot/timeline_end.py", "capture/transactions_on_timeline.py",
}
#: Rules that only captures by commit times ask, and why.
NO_REMAP = {
    "makes_up_for": "a remap takes no declared resnapshot",
    "end_of_declared": "a remap takes no declared resnapshot",
    "is_due": "a remap takes no declared resnapshot",
    "is_next": "a remap takes no declared resnapshot",
}
#: Rules that only captures on a remap ask, and why.
NO_COMMIT_TIMES = {
    "early_end": "the tracker of snapshots asks it by stop_for_early, which adds how far may be released",
    "second_snapshot": "the tracker of snapshots asks it by stop_for_second",
    "unexpected_snapshot": "the tracker of snapshots asks it by stop_for_unexpected",
    "end_is_known": "on a remap the End of a snapshot is a record, made once the tracker knows all of it",
}


def trees(names: set[str] | None = None) -> Iterator[tuple[str, ast.Module]]:
    for path in sources(PACKAGE):
        name = path.relative_to(PACKAGE).as_posix()
        if names is None or name in names:
            yield name, ast.parse(path.read_text())


def called(tree: ast.Module) -> set[str]:
    """The names that are called, or handed on, in a module: whatever they are attributes of."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def rules() -> set[str]:
    """The public functions of the modules of rules."""
    return {
        node.name for _, tree in trees(RULES) for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def test_what_contradicts_a_source_is_decided_by_the_rules_alone() -> None:
    made = {
        name for name, tree in trees() for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Contradiction"
    }
    assert made == RULES


def test_a_rule_that_one_way_asks_alone_is_named_with_its_reason() -> None:
    known = rules()
    asked_by = {name: called(tree) & known for name, tree in trees() if name.startswith(("capture/", "spark/"))}
    by_commit_times = set[str]().union(*(asked_by[name] for name in BY_COMMIT_TIMES))
    on_a_remap = set[str]().union(*(asked_by[name] for name in ON_A_REMAP))
    shared = set[str]().union(*(
        asked for name, asked in asked_by.items() if name not in BY_COMMIT_TIMES | ON_A_REMAP | RULES
    ))
    assert by_commit_times - on_a_remap - shared == NO_REMAP.keys()
    assert on_a_remap - by_commit_times - shared == NO_COMMIT_TIMES.keys()
    unused = known - by_commit_times - on_a_remap - shared
    between = set[str]().union(*(called(tree) for _, tree in trees(RULES)))
    assert not unused - between, "no capture asks them"
