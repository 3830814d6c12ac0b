"""What people are shown about a piece of external state that is not as it should be: what is so, and what to do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import quote

from cdcv2.connectors.debezium.left_out import Omission
from cdcv2.connectors.debezium.postgres_catalogue import set_full
from cdcv2.control.entries import CatalogueEntry, ExternalObject, Kind
from cdcv2.control.kinds.marks import mark_of
from cdcv2.store.connect_client import curl


def refusal(entry: CatalogueEntry, thing: ExternalObject) -> str:
    """Another has its name."""
    if entry.maker is not None and entry.attempted is None:
        return (
            f"{entry.shown} is there before the first start of its connector, so the snapshot would begin at another "
            "moment than the changes. Drop it, if no other consumer reads it; or name another slot; or take no snapshot"
        )
    return (
        f"{entry.shown} is of others: {_whose(thing)}, and this entry is {entry.nonce}. Name another in the file; or "
        "declare it with owned: no, if it is meant to be used as it is; or remove it"
    )


def _whose(thing: ExternalObject) -> str:
    """Whose it is, as far as that can be known."""
    if thing.mark is not None:
        return f"its mark is that of {thing.mark}{thing.owner and f' of {thing.owner}'}"
    where = f", {thing.place}" if thing.place else ""
    identity = f"its identity is {thing.identity}" if thing.identity else "it has no mark of this pipeline"
    return f"{identity}{where}"


def replacement(entry: CatalogueEntry, thing: ExternalObject) -> str:
    """Another is there, in place of the one that is used."""
    return (
        f"{entry.shown} is not the one in use: {_whose(thing)}, and that one has the identity {entry.identity}. "
        f"{_what_is_lost(entry)}"
    )


def removal_by_others(entry: CatalogueEntry) -> str:
    """It is missing, and a job used it."""
    return f"{entry.shown} was removed by others while a job used it. {_what_is_lost(entry)}"


def remaking(entry: CatalogueEntry, begun: bool) -> str:
    """A slot was dropped and made again. ``begun``: it is being made just now."""
    sign = "it is being made just now" if begun else "the server counts its transactions from 0"
    return f"{entry.shown} was dropped and made again since it was seen last: {sign}. {_what_is_lost(entry)}"


def going_back(entry: CatalogueEntry) -> str:
    """Its server is what it was at an earlier moment."""
    return (
        f"the server of {entry.shown} is what it was at an earlier moment, as after a backup of its files was put "
        "back: its WAL ends before what was confirmed. Logs and copies may have commits that it has no more, and what "
        f"it commits now is passed by. {_what_is_lost(entry)}"
    )


def branching_off(entry: CatalogueEntry, thing: ExternalObject) -> str:
    """Its server goes on from an earlier moment, on another timeline."""
    before, now = entry.slot, thing.slot
    numbers = ""
    if before is not None and now is not None:
        last = before.timeline if before.fork is None else before.fork.last.timeline
        numbers = f", {now.timeline} and no longer {last if last != now.timeline else before.timeline}"
    return (
        f"the server of {entry.shown} is on another timeline{numbers}, as after a standby was promoted, or its files "
        "were recovered up to an earlier moment. What was captured last is not on this timeline, or may not be: logs "
        "and copies may have commits that it has no more, and what it has committed since may be passed by. "
        f"{_what_is_lost(entry)}. It may be a false alarm: docs/operations/external-state.md#a-false-alarm"
    )


def topic_unread(entry: CatalogueEntry, why: str) -> str:
    """What its topics have must be known, and is not."""
    return (
        f"the server of {entry.shown} was promoted, or put back to an earlier moment. Whether it has all that was "
        f"captured is not known before the transaction topic can be read: {why}"
    )


def reader_unknown(entry: CatalogueEntry, why: str) -> str:
    """Its connector is missing, and what the topics have must be known."""
    return (
        f"whether {entry.shown} is the one that its connector has read, which is missing, is not known before the "
        f"transaction topic can be read: {why}"
    )


def invalidation(entry: CatalogueEntry, thing: ExternalObject) -> str:
    """Its server will not let it be used any more."""
    return f"{entry.shown} was invalidated by its server ({thing.invalid}). {_what_is_lost(entry)}"


def rewriting(entry: CatalogueEntry, tables: list[str]) -> str:
    """Rows were changed by DDL, of which the server sends nothing."""
    return (
        f"the rows of {', '.join(tables)}, which {entry.shown} publishes, were changed by ALTER TABLE or ALTER TYPE "
        "since it was seen last: all were written again with another type of a column or by an expression, or a column "
        "was replaced by another one of its name, or a value of an enum type has another name. The server sends no "
        "change for that. If numbers have more or fewer digits behind the point now, start over: cdcv2 compare does "
        f"not see that. {_accept(entry)}"
    )


def inheritance(children: Mapping[str, Sequence[str]]) -> str:
    """Tables from which others inherit, also as partitions. ``children``: of each."""
    named = "; ".join(f"{', '.join(those)} inherit from {table}" for table, those in children.items())
    return (
        f"{named}: a SELECT has the rows of all of these, and the changes of each are sent under its own name alone. "
        "Capture the children or partitions, and not the table from which they inherit; or end an inheritance (ALTER "
        "TABLE ... NO INHERIT ...)"
    )


def identities(indexes: Mapping[str, str]) -> str:
    """Tables whose old rows are known by another index than their primary key. ``indexes``: of each."""
    named = "; ".join(f"{table} has REPLICA IDENTITY USING INDEX {index}" for table, index in indexes.items())
    return (
        f"{named}: by its records another row may be deleted. Set it to FULL, or to DEFAULT with before: from-state "
        "(ALTER TABLE ... REPLICA IDENTITY ...)"
    )


def mixed_identities(entry: CatalogueEntry, tables: Mapping[str, Sequence[str]]) -> str:
    """Tables that are to have REPLICA IDENTITY FULL, and partitions of them have it not. ``tables``: those of each."""
    named = "; ".join(f"{', '.join(those)} of {table}" for table, those in tables.items())
    return (
        f"{entry.shown} sends changes of partitions without REPLICA IDENTITY FULL: {named}. A server takes the "
        "identity of the partition, not that of the table above it, and a new partition has DEFAULT. An UPDATE or "
        "DELETE there comes without its before-image: it stops a capture that takes that from the envelope, and a "
        "capture with full-identity takes away a row that never was. Run "
        f"{set_full(leaf for those in tables.values() for leaf in those)} and do that with each new partition, in the "
        "transaction that makes it. If a capture names the table in full-identity, also run cdcv2 compare --source"
    )


def unidentified(entry: CatalogueEntry, tables: Collection[str]) -> str:
    """Tables that have no replica identity."""
    return (
        f"{entry.shown} is not given {', '.join(tables)}: without a replica identity, every UPDATE and DELETE of it "
        "would fail from then on. Set REPLICA IDENTITY FULL (ALTER TABLE); or give it a primary key that is not "
        "DEFERRABLE"
    )


def _unlike_rows(thing: ExternalObject, tables: Collection[str] | None = None) -> tuple[list[str], str]:
    """The tables, of these, whose rows are not all in their records, or not as they are; and why, in words."""
    heirs, indexes = (
        {name: of for name, of in thing.settings.get(key, {}).items() if tables is None or name in tables}
        for key in ("children", "indexed")
    )
    return [*heirs, *indexes], ". ".join([inheritance(heirs)] * bool(heirs) + [identities(indexes)] * bool(indexes))


def withdrawal(entry: CatalogueEntry, thing: ExternalObject, tables: list[str]) -> str:
    """Tables left a publication that is read by."""
    named = ", ".join(tables)
    unlike, why = _unlike_rows(thing, tables)
    if unlike:
        return f"{entry.shown} does not send all rows of {', '.join(unlike)} as they are. {why}. {_accept(entry)}"
    return (
        f"{entry.shown} has not published {named} all the time since it was seen last, as far as that can be known: it "
        f"left the publication, or was published in part, or had another name or schema, or a partition of it was "
        f"taken out, or its REPLICA IDENTITY is no longer FULL, or that of a partition, or another table has its name "
        f"now; or the options of the publication were set, perhaps to what they were. Changes of {named} may be "
        f"missing in the logs, also if all is as before. {_accept(entry)}"
    )


def narrowing(entry: CatalogueEntry, thing: ExternalObject, names: list[str]) -> str:
    """A connector was changed by others, and sends less."""
    mark = "" if thing.mark else f", and {_mark(entry)}"
    return (
        f"{entry.shown} was changed by others, and sends less: {comparison(entry, thing, names)}{mark}. Changes of "
        f"tables may be missing in the topics, also when it is changed back. {_accept(entry)}"
    )


def without_mark(entry: CatalogueEntry) -> str:
    """A connector of ours was given its settings without our mark."""
    return (
        f"{entry.shown} reads the slot of this pipeline, and {_mark(entry)}: others have sent its settings again. "
        "Nothing is done to it. Send all its settings to Connect once more, with this one"
    )


def unmarked_left(entry: CatalogueEntry) -> str:
    """The same, when it is to be removed."""
    return (
        f"{without_mark(entry)}; then it is removed. Before, nothing is that it uses. Or remove it by hand, with its "
        "positions (docs/operations/start-over.md#by-hand). If it is of others: cdcv2 down FILE --remove-external "
        "--leave-doubtful"
    )


def settings_sent(entry: CatalogueEntry) -> str:
    """A connector that a person has accepted."""
    return f"{entry.shown} was accepted, and is given its settings again"


def _mark(entry: CatalogueEntry) -> str:
    return f"its setting cdcv2.entry is missing, which is 'cdcv2: entry {entry.nonce}'"


def _accept(entry: CatalogueEntry) -> str:
    by_us = entry.kind is Kind.CONNECTOR and entry.owned
    if by_us:
        return (
            f"Run cdcv2 compare --source: unless all is equal, start over. Then end cdcv2 up, and start it with "
            f"--accept-lost {entry.nonce}: it gives the connector its settings again. When that is done, compare "
            "again (docs/operations/start-over.md#continue-with-a-publication)"
        )
    return (
        "Put it back as it was, and run cdcv2 compare --source: unless all is equal, start over. Then end cdcv2 up, "
        f"start it with --accept-lost {entry.nonce}, and compare again "
        "(docs/operations/start-over.md#continue-with-a-publication)"
    )


def lost_before(entry: CatalogueEntry) -> str:
    """It was lost under another address of its server."""
    return f"{entry.shown} was lost when the file had another address of its server. {_what_is_lost(entry)}"


def _what_is_lost(entry: CatalogueEntry) -> str:
    theirs = entry.kind in (Kind.PUBLICATION, Kind.CONNECTOR, Kind.SLOT) and not entry.owned
    after = f". Then cdcv2 up --accept-lost {entry.nonce} continues with the one of its owner" if theirs else ""
    return (
        f"Lost with it: {entry.rules.holds}. It is not made again by itself: "
        f"decide whether to start over (docs/operations/start-over.md){after}"
    )


def let_go_before(entry: CatalogueEntry) -> str:
    """It was lost before the file left it out."""
    return f"{entry.shown} was lost before the file left it out. {_accept(entry)}"


def comparison(entry: CatalogueEntry, thing: ExternalObject, names: list[str]) -> str:
    """The settings of these names, as they are and as they should be."""
    found = ", ".join(f"{name} is {thing.settings.get(name)!r}, not {entry.settings.get(name)!r}" for name in names)
    why = _unlike_rows(thing)[1]
    return f"{found}, as {why}" if why else found


def change_by_others(entry: CatalogueEntry, thing: ExternalObject, names: list[str]) -> str:
    """Settings of it are others than those that we gave it."""
    text = f"{entry.shown} was changed by others: {comparison(entry, thing, names)}. Nothing is done to it: "
    if entry.kind is not Kind.TOPIC or names != ["partitions"]:
        return f"{text}change it back, or change the file"
    meant, there = entry.settings["partitions"], thing.settings["partitions"]
    if there < meant:
        # As after the file got more: no act of ours gives a topic more of them.
        broker = entry.address.removeprefix("Kafka ")
        add = f"kafka-topics.sh --bootstrap-server {broker} --alter --topic {entry.name} --partitions {meant}"
        return f"{text}{add} gives it as many; or change the file"
    return (
        f"{text}Kafka takes no partitions away. In a topic with the changes of a table, more are harmless: write "
        f"topic.creation.default.partitions={there} into the connector's file. In one whose order counts, as the "
        "transaction topic, they are not: start over. What to do with others: "
        "docs/operations/kafka.md#a-topic-got-more-partitions"
    )


def leaving_out(entry: CatalogueEntry, found: Sequence[Omission]) -> str:
    """A connector of others whose settings send less than there is, or other values."""
    settings = "; ".join(f"{one.setting} ({one.why}: {one.remedy})" for one in found)
    return (
        f"{entry.shown} does not fit: it has {settings}. It is of others: its owner must mend it. What it sent "
        "meanwhile stays as it is: docs/operations/connector.md#settings-that-leave-something-out"
    )


def either_owner(entry: CatalogueEntry) -> str:
    """A slot that may be ours or of others."""
    return (
        f"{entry.shown} may be this pipeline's, or one that others have made since it was seen last: its connector is "
        "missing, and what it keeps of WAL does not show which it is. So it is left alone. If nothing needs it, drop "
        f"it: SELECT pg_drop_replication_slot('{entry.name}'). If it is of others: cdcv2 down FILE --remove-external "
        "--leave-doubtful"
    )


def rows_before(entry: CatalogueEntry, table: str) -> str:
    """A table with rows is to come into a publication that is read by."""
    return (
        f"{entry.shown} is not given {table}: it has rows already, and the connector takes no second snapshot, so they "
        "would be in no topic. Start over, with all tables of the connector (docs/operations/start-over.md); or add it "
        "while it is empty"
    )


def connector_first(entry: CatalogueEntry, connectors: list[CatalogueEntry]) -> str:
    """A publication whose tables are changed after the connectors that read by it."""
    return f"{entry.shown} is altered after {', '.join(one.shown for one in connectors)}: else changes would be lost"


def being_made(entry: CatalogueEntry) -> str:
    """A slot whose making waits for others."""
    return (
        f"{entry.shown} is being made by its connector: PostgreSQL makes it when the transactions that were open have "
        "ended (cdcv2 explain names the oldest)"
    )


def late_request(entry: CatalogueEntry) -> str:
    """It is missing, and may still come."""
    if entry.identity is not None:
        return (
            f"{entry.shown} is missing now. Its connector was stopped or removed a moment ago, and may still make "
            "it again; so it is looked at again for some seconds"
        )
    return (
        f"{entry.shown} may still be made, as it was requested a moment ago without an answer; it is missing now, and "
        "is looked at again"
    )


def rest(entry: CatalogueEntry, slots: list[CatalogueEntry]) -> str:
    """A connector that is stopped, as its slots come first."""
    return f"{entry.shown} is stopped or about to be, and is removed after {', '.join(one.shown for one in slots)}"


def slots_of_others(entry: CatalogueEntry, slots: list[CatalogueEntry]) -> str:
    """A connector that would read what others may have made."""
    seen = [one for one in slots if one.identity is not None]
    names = ", ".join(one.shown for one in seen or slots)
    if not seen:
        return (
            f"{names} is there, and {entry.shown} is not: it would read what others may have made. Drop the slot, if "
            "no other consumer reads it; or name another"
        )
    return (
        f"{entry.shown} is missing, and {names} is there: it may be the one that this pipeline reads, or one that "
        "others have made in its place since it was seen last, as it was read further than the transaction topic "
        "shows, or what that shows may be of a timeline that the server has left. Do not drop it: it may keep "
        "changes that are in no topic. If it was not dropped, make the connector "
        f"again, and cdcv2 up continues with it: {_making_of(entry)} . If it was dropped and made again, start over "
        "(docs/operations/start-over.md)"
    )


def _making_of(connector: CatalogueEntry) -> str:
    """The command that makes a connector of ours, with its mark."""
    settings = {name: str(value) for name, value in connector.settings.items()}
    config = shlex.quote(json.dumps({**settings, "cdcv2.entry": mark_of(connector)}, ensure_ascii=False))
    at = f"{connector.address}/connectors/{quote(connector.name, safe='')}/config"
    return curl(f"-X PUT -H 'Content-Type: application/json' -d {config} {at}", None)


def maybe_elsewhere(entry: CatalogueEntry, why: str) -> str:
    """It is not removed, as it may be what is wanted at another address."""
    return (
        f"{entry.shown} may be what the file has at another address now, and that cannot be looked at yet: {why}. It "
        "is removed only when that is seen to be another one"
    )


def two_addresses(entry: CatalogueEntry, other: CatalogueEntry) -> str:
    """The file has one thing under two addresses."""
    return (
        f"{entry.shown} is {other.shown}, which the file has, too: one server, by two addresses. Write one of them in "
        "both places"
    )
