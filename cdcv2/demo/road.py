"""The road that the demonstrations on real parts have in common: from a bank in PostgreSQL to one log per table.

A bank works in PostgreSQL; Debezium puts its changes on Kafka; the capture job, on Spark, makes logs of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.core.antichain import Antichain
from cdcv2.demo.bank import TABLES, Bank, Clients, row_types
from cdcv2.demo.story import Story
from cdcv2.demo.watch import LogWatch, topics_of
from cdcv2.errors import UnavailableError
from cdcv2.servers import jars
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child, poll_until
from cdcv2.servers.submit import spark_submit

PREFIX = "bank"
#: the row types of the bank's tables, as jobs and commands take them
ROWS = Path(__file__).with_name("rows")


class BankSource:
    """A bank in a PostgreSQL of its own, open and at rest; ``opened`` stops the server. Raises UnavailableError.

    ``prefix`` is that of its topics, ``seed`` the bank's, and what its connector writes down is in ``folder``.
    """

    def __init__(self, prefix: str, folder: Path, opened: ExitStack, *, seed: int) -> None:
        self.prefix, self._folder = prefix, folder
        self.postgres = opened.enter_context(Postgres())
        self.bank = Bank(self.postgres.connect, seed=seed)
        self.bank.create()

    def connect(self, kafka: KafkaBroker, opened: ExitStack, *, partitions: int = 3) -> None:
        """Start its connector, which ``opened`` stops."""
        server = self.postgres
        config = debezium_config(
            self.prefix, TABLES, host=server.host, port=server.port, database=server.database, user=server.username,
            partitions=partitions,
        )  # fmt: skip
        connector = Connect(kafka.bootstrap, config, environment=server.environment, folder=self._folder)
        self.connector, self._bootstrap = opened.enter_context(connector), kafka.bootstrap

    def begin(self) -> None:
        """Return when the snapshot is behind the connector, and capture may begin."""
        self.connector.wait_streaming()
        # The connector makes the transaction topic with the first transaction.
        self.bank.marker("the beginning")
        if not poll_until(lambda: f"{self.prefix}.transaction" in topics_of(self._bootstrap), 180):
            raise UnavailableError(f"Debezium has made no topic {self.prefix}.transaction within three minutes")


class Road:
    """Servers, bank and capture of one run; what they write is below ``folder``. ``seed`` is the bank's."""

    def __init__(self, folder: Path, story: Story, *, seed: int, rate: float) -> None:
        self.folder, self.story, self.seed, self.rate = folder, story, seed, rate
        self.rows = row_types()

    def start(self, opened: ExitStack) -> None:
        """Start the servers and a connector, which ``opened`` stops, and open the bank. Raises UnavailableError."""
        source = self.open(opened)
        source.connect(self.kafka, opened)
        source.begin()

    def open(self, opened: ExitStack) -> BankSource:
        """Start Kafka and PostgreSQL, which ``opened`` stops, and open the bank. Raises UnavailableError."""
        fetch_jars()
        self.kafka = opened.enter_context(KafkaBroker(self.folder / "kafka"))
        source = BankSource(PREFIX, self.folder / "connect", opened, seed=self.seed)
        self.postgres, self.bank = source.postgres, source.bank
        self.watch = self.watched()
        self.story.fact(f"{len(TABLES)} tables; the money in them is {cents(self.bank.money)} at any moment")
        return source

    def watched(self) -> LogWatch:
        """A new watch over the logs that capture writes; one thread at a time."""
        return LogWatch(self.kafka.bootstrap, {table: f"log.{table}" for table in TABLES}, self.rows)

    def submit_capture(self, environment: Mapping[str, str] | None = None) -> Child:
        """Start the capture job, with this environment beside ours."""
        words = [
            "--bootstrap", self.kafka.bootstrap,
            "--prefix", PREFIX,
            "--tables", ",".join(TABLES),
            "--rows", str(ROWS),
            "--into", "kafka:log.{table}",
            "--notifications", f"{PREFIX}.notifications",
            "--state", str(self.folder / "capture-state"),
        ]  # fmt: skip
        # A folder of its own: a job that runs may still load from the package that lies there.
        return spark_submit("capture", words, folder=self.folder / "capture", environment=environment)

    def begin(self, job: Child, opened: ExitStack) -> Clients:
        """Wait for the capture to start, let clients work, and return when the logs grow; ``opened`` stops them."""
        job.wait_until(lambda: '"what": "start"' in job.log_since_start(), "capture starts", 120)
        return self.clients_at_work(job, opened)

    def clients_at_work(self, job: Child, opened: ExitStack) -> Clients:
        """Let clients work, and return when the logs grow, while ``job`` runs; ``opened`` stops the clients."""
        clients = opened.enter_context(self.bank.at_work(clients=4, rate=self.rate))
        job.wait_until(lambda: self.watch.frontier_moves() >= 3, "the logs grow", 240)
        return clients

    def work_on(self, clients: Clients, transactions: int) -> int:
        """Wait until the clients have committed so many more; return how many they have in all."""
        begin = clients.done.committed.total()

        def enough() -> bool:
            clients.check()
            return clients.done.committed.total() >= begin + transactions

        if not poll_until(enough, 120):
            raise UnavailableError("the bank's clients do not get on: is PostgreSQL still there?")
        return clients.done.committed.total()

    def passed(self, time: int) -> bool:
        """Whether the logs are complete through ``time``."""
        return not self.watch.known().less_equal(time)


def fetch_jars() -> None:
    """What the servers and the jobs are made of is there. Raises UnavailableError."""
    for name in ("kafka", "debezium", "spark"):
        jars.fetch(name)


@contextmanager
def stopped(job: Child) -> Iterator[Child]:
    """Within the block it may run; after it, it does not."""
    try:
        yield job
    finally:
        job.stop()


def cents(amount: int) -> str:
    """An amount of money for people.

    >>> cents(2800000050)
    '28,000,000.50'
    """
    return f"{amount / 100:,.2f}"


def before(one: Antichain, other: Antichain) -> bool:
    """Whether ``other`` is further than ``one``."""
    return other.dominates(one) and one != other


def text(frontier: Antichain) -> str:
    """A frontier for people."""
    return ", ".join(map(str, frontier)) or "the end"
