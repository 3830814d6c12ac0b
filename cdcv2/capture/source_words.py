"""The words in reasons and remedies that differ by database: marks in the texts, and what a connector puts there.

What decides a capture states its reasons and remedies once, for every database. Where a text needs a word of the
database it has a mark, and the connector's :class:`SourceWords` fill it. Without any they are words that are right of
every database.
"""

from __future__ import annotations

from typing import NamedTuple


class SourceWords(NamedTuple):
    """What a database, or its connector, calls what remedies are about; each is a part of a sentence.

    - ``slot``: what keeps the connector's place in the source; ``replication_slot``: the same in full.
    - ``prefix``: the setting that names the source, and so its topics; for helps of options alone.
    - ``whole_rows``: what makes records have whole before-images; ``take_whole_rows``: the same behind "take whole
      before-images:". ``partial_rows``: a sentence about what does not. ``key``: what a row is known by.
    - ``no_snapshot``: the setting with which a connector takes none. ``captured_tables``: what decides which tables it
      captures. ``snapshot_lsn``: where a record has the LSN of a snapshot. ``producers``: what sends its records.
    - ``or_restarted``: a sentence about a connector that was restarted inside a transaction, if that may spoil it.
      ``renumbered``: what to do about one that numbers rows again then; ``old_connector``: what such a one is called.

    >>> SourceWords().fill(f"drop its {SLOT}"), SourceWords(slot="slot").fill(f"drop its {SLOT}")
    ('drop its place in the source', 'drop its slot')
    """

    slot: str = "place in the source"
    replication_slot: str = "place in the source"
    prefix: str = "name of the source, with which its topics begin"
    whole_rows: str = "before-images whole in its records"
    take_whole_rows: str = "let the records have them"
    partial_rows: str = ""
    key: str = "the primary key"
    no_snapshot: str = "setting for no snapshot"
    captured_tables: str = "list of tables"
    snapshot_lsn: str = "the position"
    producers: str = "its producers"
    or_restarted: str = ""
    renumbered: str = (
        "A connector that is restarted inside a transaction, and then numbers the rest from 1 again, may lose rows: "
        "use one that does not, and start over with a new snapshot: new topics, new logs"
    )
    old_connector: str = "a connector that numbers rows again when it is restarted"

    def fill(self, text: str) -> str:
        """The text with these words for its marks; one without marks is unchanged. Cost: linear in the text."""
        if _OPEN not in text:
            return text
        for name, words in self._asdict().items():
            text = text.replace(_mark(name), words)
        return text


_OPEN, _CLOSE = "\N{LEFT DOUBLE ANGLE BRACKET}", "\N{RIGHT DOUBLE ANGLE BRACKET}"


def _mark(name: str) -> str:
    return f"{_OPEN}{name}{_CLOSE}"


#: The marks: what texts have where the words of the same name belong.
(
    SLOT, REPLICATION_SLOT, _, WHOLE_ROWS, TAKE_WHOLE_ROWS, PARTIAL_ROWS, KEY, NO_SNAPSHOT_SETTING,
    CAPTURED_TABLES, SNAPSHOT_LSN, PRODUCERS, OR_RESTARTED, RENUMBERED_WORDS, OLD_CONNECTOR,
) = map(_mark, SourceWords._fields)
#: Words that are right of every database.
ANY_SOURCE = SourceWords()
