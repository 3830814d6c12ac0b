"""Pipeline files for real servers, by what is chosen in them; all names in one of them begin with its prefix."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cdcv2.connectors.debezium.config import JSON_CONVERTERS, debezium_config
from tests.external_servers import CONNECTOR, PUBLICATION, SLOT, TABLE, TOPIC, RealServers

#: Servers by another of their addresses.
HOSTS = ((), ("bank", "copy"), ("kafka",), ("connect",), ("bank", "copy", "kafka", "connect"))
_WORDS = (None, "yes", "yes", "yes", "yes", "yes", "no")


@dataclass(frozen=True)
class FileDraft:
    """What is chosen; None: it is not stated, or the part is not there."""

    connector: str = "yes"
    snapshot: str = "initial"
    capture: str = "shop"
    owned: str | None = "yes"
    tables: tuple[str, ...] = ("orders",)
    folder: str | None = None
    view: str | None = "yes"
    target: str = "orders"
    out: str | None = None
    hosts: tuple[str, ...] = ()

    @classmethod
    def drawn(cls, chance: Random, before: FileDraft) -> FileDraft:
        """One change, or several; seldom all."""
        fresh = {
            "connector": chance.choice(("yes", "yes", "yes", "yes", "yes", "no")),
            "snapshot": chance.choice(("initial", "initial", "no_data")),
            "capture": chance.choice(("shop", "store")), "owned": chance.choice(_WORDS),
            "tables": chance.choice((("orders",), ("orders", "items"))), "folder": chance.choice((None, "yes")),
            "view": chance.choice(_WORDS), "target": chance.choice(("orders", "others")),
            "out": chance.choice((None, None, "yes", "yes")), "hosts": chance.choice(HOSTS),
        }  # fmt: skip
        taken = chance.sample(sorted(fresh), chance.choice((1, 1, 2, 3, len(fresh))))
        return cls(**{**before.__dict__, **{name: fresh[name] for name in taken}})

    def write(self, servers: RealServers, path: Path, prefix: str, state: Path) -> None:
        """As YAML at the path, with what it names beside it."""
        def spelled(server: str, text: str) -> str:
            return text.replace("127.0.0.1", "localhost") if server in self.hosts else text

        names = [f"public.{prefix}_{table}" for table in self.tables]
        config = debezium_config(
            prefix, names, host=servers.postgres.host, port=servers.postgres.port, database="bank",
            user=servers.postgres.username, publication="disabled", snapshot=self.snapshot, more=JSON_CONVERTERS,
        )  # fmt: skip
        rows = path.parent / "rows"
        rows.mkdir(exist_ok=True)
        for table in ("orders", "items"):
            name = f"{prefix}_{table}"
            row = {"type": "record", "name": name, "fields": [{"name": "id", "type": "long"}]}
            (rows / f"public.{name}.avsc").write_text(json.dumps(row), "utf-8")
        settings = path.with_suffix(".json")
        settings.write_text(json.dumps(config), "utf-8")
        lines = [
            f"pipeline: {path.stem}", f"state: {state}",
            f'kafka: {{bootstrap: "{spelled("kafka", servers.kafka.bootstrap)}"}}',
            "sources:", "  base:", f"    prefix: {prefix}", f"    notifications: {prefix}.notifications",
            f'    postgres: {{conninfo: "{spelled("bank", servers.conninfo("bank"))}"}}',
            f'    connector: {{name: {prefix}, url: "{spelled("connect", servers.connect.url)}", '
            f"owned: {self.connector}, config: {settings.name}}}",
            "captures:", f"  {self.capture}: {{tables: [{', '.join(names)}], into: 'kafka:{prefix}.cdc.{{table}}', "
            f"remap: 'kafka:{prefix}.timeline'{_owned(self.owned)}}}",
        ]  # fmt: skip
        if self.folder is not None:
            lines.append(f"  files: {{tables: [public.{prefix}_orders], into: {prefix}-logs{_owned(self.folder)}}}")
        bound = f"capture: {self.capture}, bindings: [{{log: public.{prefix}_orders, target: %s, key: [id]%s}}]"
        lines += [
            "views:", f"  copy: {{{bound % (f'{prefix}_{self.target}', '')}, target: {{driver: postgres, conninfo: "
            f'"{spelled("copy", servers.conninfo("copy"))}"}}{_owned(self.view)}}}',
        ]  # fmt: skip
        if self.out is not None:
            lines.append(f"  out: {{{bound % (f'{prefix}.out', ', delta: true')}, target: {{driver: kafka}}, "
                         f"recovery_log: recovery{_owned(self.out)}}}")  # fmt: skip
        path.write_text("\n".join(lines) + "\n", "utf-8")


def _owned(word: str | None) -> str:
    return "" if word is None else f", owned: {word}"


def wanted_names(prefix: str) -> list[tuple[str, str]]:
    """Names that such files want, by kind: where others may come first."""
    return [
        (TOPIC, f"{prefix}.cdc.public.{prefix}_orders"), (TOPIC, f"{prefix}.timeline"), (TOPIC, f"{prefix}.out"),
        (TOPIC, f"{prefix}.transaction"), (SLOT, prefix), (PUBLICATION, prefix), (CONNECTOR, prefix),
        (TABLE, f"{prefix}_orders"), (TABLE, f"{prefix}_others"),
    ]  # fmt: skip
