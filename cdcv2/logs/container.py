"""Avro object container files with one ``bytes`` field per record: how messages lie in a file.

Spark, DuckDB, Java and any Avro tool read them as a table of one binary column. This module has only what that needs,
so that it can report where a file is damaged: the header, blocks without compression or with ``deflate``, and a
sync marker behind each block.

A file written here has a digest of each block in its header, as the metadata ``cdcv2.digests``: hex digits, 32 for
each block, of the SHA-256 of its count and its bytes. They show a changed byte of a block, and a missing block, also at
the end. The sync marker is a digest of these digests, so equal content is equal bytes, and a changed header is found,
too: other digests, another schema, or digests that have lost their name. A file without this entry is another writer's
(or older), and is read without this check.

A file of a log also has its *origin*, as the metadata ``cdcv2.log``: of which log it is, and which number it has there,
as JSON behind a digest of that and of the digests of the blocks. So a file that stands in the place of another, of this
log or of another one, is found out. A file without this entry is older, and is read without this check.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cdcv2.core.json_text import parse_json
from cdcv2.errors import DecodeError
from cdcv2.rows.binary import guarded
from cdcv2.rows.varint import bad, long_bytes, read_bytes, read_long

MAGIC = b"Obj\x01"
#: The schema of every file of a log.
FILE_SCHEMA = {
    "type": "record", "name": "message", "namespace": "com.materialize.cdc.file",
    "fields": [{"name": "value", "type": "bytes"}],
}  # fmt: skip
#: The entry of the header that has the digests of the blocks.
DIGESTS = "cdcv2.digests"
#: The entry of the header that has the file's origin.
ORIGIN = "cdcv2.log"
_SYNC = 16
_DIGITS = 32
# A block inflates to no more than the first, or than so many times its own size, nor in any case than the last: a few
# bytes of deflate can stand for a thousand times as many, which is out of proportion. Blocks written here are plain.
_FREELY, _TIMES, _MOST = 4 << 20, 100, 1 << 28
_BLOCK = 1 << 20


class Origin(NamedTuple):
    """Of which log a file is, by its identity and timeline, and its number there; None: it does not state it.

    >>> str(Origin("7f", "0c", 3))
    'file 3 of the log 7f, of the timeline 0c'
    """

    identity: str | None
    timeline: str | None
    number: int | None

    def __str__(self) -> str:
        number = "a file" if self.number is None else f"file {self.number}"
        log = "a log without identity" if self.identity is None else f"the log {self.identity}"
        return f"{number} of {log}{'' if self.timeline is None else f', of the timeline {self.timeline}'}"

    def agrees(self, other: Origin) -> bool:
        """Whether this may be the other: a log may have got its timeline after the file, but never its identity."""
        timelines = {self.timeline, other.timeline} - {None}
        return (self.identity, self.number) == (other.identity, other.number) and len(timelines) < 2


class ForeignFile(DecodeError):
    """The file states another origin than that of the place where it stands. Attributes: ``stated``, ``place``."""

    def __init__(self, stated: Origin, place: Origin) -> None:
        super().__init__(f"it is {stated}, and stands in the place of {place}")
        self.stated, self.place = stated, place


def pack(values: Iterable[bytes], origin: Origin | None = None) -> bytes:
    """A container file of these values, uncompressed, in blocks of about 1 MiB."""
    blocks, records, size = [], [], 0
    for value in values:
        records.append(long_bytes(len(value)) + value)
        size += len(records[-1])
        if size >= _BLOCK:
            blocks.append((len(records), b"".join(records)))
            records, size = [], 0
    if records:
        blocks.append((len(records), b"".join(records)))
    digests = "".join(_digest(count, body) for count, body in blocks).encode()
    sync = _marker(digests)
    out = [MAGIC, _header(digests, origin), sync]
    for count, body in blocks:
        out += [long_bytes(count), long_bytes(len(body)), body, sync]
    return b"".join(out)


def _digest(count: int, body: bytes) -> str:
    digest = hashlib.sha256(long_bytes(count))
    digest.update(body)
    return digest.hexdigest()[:_DIGITS]


def _marker(digests: bytes) -> bytes:
    return hashlib.sha256(digests).digest()[:_SYNC]


def unpack(raw: bytes, place: Origin | None = None) -> Iterator[bytes]:
    """The values of a container file, in order; ``place`` is the origin that it must have, if it states one.

    Raises ForeignFile for another one, before it gives out anything, and DecodeError for bytes that are no such file,
    when it comes to them: what stands before a damaged block is given out first. A file that was written here and has
    another byte, or a block less, is damaged too.
    """
    codec, digests, origin, sync, at = guarded(_read_header, raw)
    if place is not None and origin is not None and not origin.agrees(place):
        raise ForeignFile(origin, place)
    number = 0
    while at < len(raw):
        values, at = guarded(_read_block, raw, at, codec, sync, None if digests is None else digests[number:number + 1])
        number += 1
        yield from values
    if digests is not None and number < len(digests):
        bad(f"the file ends at byte {at} after {number} of its {len(digests)} blocks: it was cut off")


def _header(digests: bytes, origin: Origin | None) -> bytes:
    schema = json.dumps(FILE_SCHEMA, separators=(",", ":"))
    pairs = {"avro.codec": b"null", "avro.schema": schema.encode(), DIGESTS: digests}
    if origin is not None:
        text = json.dumps(origin._asdict(), separators=(",", ":")).encode()
        pairs[ORIGIN] = _origin_digest(digests, text) + text
    coded = [
        long_bytes(len(key)) + key.encode() + long_bytes(len(value)) + value for key, value in sorted(pairs.items())
    ]
    return long_bytes(len(coded)) + b"".join(coded) + b"\x00"


def _origin_digest(digests: bytes, text: bytes) -> bytes:
    return hashlib.sha256(b"%s\n%s" % (digests, text)).hexdigest()[:_DIGITS].encode()


def _read_header(raw: bytes) -> tuple[str, list[str] | None, Origin | None, bytes, int]:
    if not raw.startswith(MAGIC):
        bad("the file is no Avro container: it does not begin with 'Obj' and a 1")
    held: dict[str, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = read_long(raw, at)
        if not count:
            break
        if count < 0:
            _, at = read_long(raw, at)
        if abs(count) > len(raw) - at:
            bad(f"a header of {abs(count)} entries in {len(raw) - at} bytes")
        for _ in range(abs(count)):
            key, at = read_bytes(raw, at)
            held[key.decode()], at = read_bytes(raw, at)
    codec = held.get("avro.codec", b"null").decode()
    if codec not in ("null", "deflate"):
        bad(f"the file is compressed with {codec!r}: write logs without compression or with deflate")
    schema = _read_schema(held.get("avro.schema", b""))
    if len(raw) - at < _SYNC:
        bad("the file ends in its header")
    sync = raw[at:at + _SYNC]
    return codec, _read_digests(held, schema, sync), _read_origin(held), sync, at + _SYNC


def _read_origin(held: dict[str, bytes]) -> Origin | None:
    """What the header states of the file's origin, if it does."""
    digests, text = held.get(DIGESTS, b""), held.get(ORIGIN)
    if text is None:
        if any(_is_origin(digests, value) for value in held.values()):
            bad(f"the header was changed after it was written: its origin is not called {ORIGIN}")
        return None
    if not _is_origin(digests, text):
        bad("the header was changed after it was written: its origin does not have the digest before it")
    plain = parse_json(text[_DIGITS:])
    return Origin(plain["identity"], plain["timeline"], plain["number"])


def _is_origin(digests: bytes, value: bytes) -> bool:
    return value[:_DIGITS] == _origin_digest(digests, value[_DIGITS:])


def _read_digests(held: dict[str, bytes], schema: Any, sync: bytes) -> list[str] | None:
    """The digest of each block; None for a file of another writer, which has none."""
    if DIGESTS not in held:
        if sync in map(_marker, held.values()):
            bad(f"the header was changed after it was written: its digests of the blocks are not called {DIGESTS}")
        return None
    text = held[DIGESTS]
    if _marker(text) != sync:
        bad("the header was changed after it was written: its digests of the blocks do not give the sync marker")
    if schema != FILE_SCHEMA:
        bad(f"the header was changed after it was written: with {DIGESTS} its schema is {json.dumps(FILE_SCHEMA)}")
    return [text[at:at + _DIGITS].decode() for at in range(0, len(text), _DIGITS)]


def _read_schema(text: bytes) -> Any:
    try:
        schema = parse_json(text)
        (field,) = schema["fields"]
        kind = field["type"]
    except (ValueError, KeyError, TypeError):
        schema = kind = None
    if kind not in ("bytes", {"type": "bytes"}):
        bad("the file holds no messages: its records are not of one field of type bytes")
    return schema


def _read_block(raw: bytes, at: int, codec: str, sync: bytes, digest: list[str] | None) -> tuple[list[bytes], int]:
    """The values of the block at ``at``, and where it ends.

    ``digest`` has the digest that it must have: none for a block more than the header knows; None for another writer.
    """
    start = at
    count, at = read_long(raw, at)
    if count < 0:
        bad(f"the block at byte {start} has the negative count {count}")
    body, at = read_bytes(raw, at)
    if raw[at:at + _SYNC] != sync:
        bad(f"the block at byte {start} is not followed by the file's sync marker")
    if digest is not None and digest != [_digest(count, body)]:
        bad(f"the block at byte {start} was changed after it was written: it does not have the digest in the header")
    if codec == "deflate":
        body = _inflated(body)
    values, inside = [], 0
    if count > len(body):
        bad(f"{count} messages are stated to stand in {len(body)} bytes")
    for _ in range(count):
        value, inside = read_bytes(body, inside)
        values.append(value)
    if inside != len(body):
        bad(f"{len(body) - inside} bytes are left over in the block at byte {start}")
    return values, at + _SYNC


def _inflated(body: bytes) -> bytes:
    most = min(_MOST, max(_FREELY, _TIMES * len(body)))
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        out = inflate.decompress(body, most)
    except zlib.error as cause:
        raise DecodeError(f"a block that is no deflate: {cause}") from None
    if len(out) == most and not inflate.eof:
        bad(
            f"a block of {len(body)} bytes that inflates to more than {most}: write smaller blocks, or leave them "
            "uncompressed"
        )
    if not inflate.eof:
        bad("a block whose deflate does not end")
    return out
