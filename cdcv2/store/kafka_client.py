"""How to reach a Kafka cluster: settings from a file, clients made of them, and their errors as ours.

One properties file serves Java's clients (and so Spark) and ours, which are librdkafka's: names that only Java has
are translated, so ``sasl.jaas.config`` with a user name and password and PEM stores work in both. The file may hold
secrets: no value of it reaches a log, an error or a ``repr``.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cdcv2.errors import Cdcv2Error, MissingExtraError, MissingLogError, UnavailableError, UsageError
from cdcv2.store.broker_addresses import demand_brokers
from cdcv2.store.file_system import text_of

LOGGER = logging.getLogger(__name__)
T = TypeVar("T")

#: How long, in seconds, an answer of the cluster is waited for.
PATIENCE = 30.0

_MISSING = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "TOPIC_EXCEPTION")
#: The last one: the topic was cut off behind what was read, as by an unclean election of a leader.
_REMOVED = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION")
_FORBIDDEN = (
    "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED", "_AUTHENTICATION",
)  # fmt: skip
_PASSING = (
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH",
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT",
)  # fmt: skip
_JAAS = re.compile(r'\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
_PEM_NAMES = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
}
_JAVA_ONLY = {"ssl.truststore.type", "ssl.keystore.type", "sasl.jaas.config", "client.dns.lookup"}


class Client:
    """A cluster, and how it is logged in to.

    Args:
        bootstrap: ``host:port``, more of them separated by commas; None: ``bootstrap.servers`` of the file.
        config_file: a properties file with settings of librdkafka or of Java's clients; None: none are needed.
        patience: how long an answer is waited for, in seconds.

    Raises UsageError for a file that cannot be read or holds what is no setting, without any brokers, for what
    is no address of one, and when confluent-kafka is not installed.
    """

    def __init__(
        self, bootstrap: str | None, config_file: str | Path | None = None, *, patience: float = PATIENCE
    ) -> None:
        self.kafka, self.questions = _confluent_kafka()
        settings = {} if config_file is None else translated(read_properties(config_file))
        if bootstrap:
            settings["bootstrap.servers"] = bootstrap
        if not settings.get("bootstrap.servers"):
            raise UsageError("Kafka needs bootstrap='HOST:PORT', or bootstrap.servers in its settings file")
        self.bootstrap = demand_brokers(settings["bootstrap.servers"])
        self.patience = patience
        self._settings, self._file = settings, config_file
        self._admin: Any = None
        # The last message that librdkafka logged by itself, for the text of a time-out.
        self._last_error = ""
        # Whether no broker has been reached since that was last logged.
        self._down = False

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a librdkafka client, ``more`` (with underscores for dots) among them. They hold secrets."""
        return {
            # A broker that comes back is found within seconds.
            "reconnect.backoff.max.ms": 2000, **self._settings, "log_level": 0, "error_cb": self._receive,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def consumer(self, **more: Any) -> Any:
        """A consumer that belongs to no group's balance and commits nothing; it reports where partitions end."""
        return self._made(self.kafka.Consumer, self.settings(
            group_id="cdcv2", enable_auto_commit=False, auto_offset_reset="error", enable_partition_eof=True,
            isolation_level="read_committed", allow_auto_create_topics=False, **more,
        ))

    def producer(self, **more: Any) -> Any:
        """A producer that repeats nothing and reorders nothing of its own, and uses no transactions."""
        return self._made(self.kafka.Producer, self.settings(
            enable_idempotence=True, acks="all", compression_type="lz4", linger_ms=5,
            message_timeout_ms=max(1, int(self.patience * 1000)), **more,
        ))

    def received(self, consumer: Any, most: int, timeout: float) -> list[Any]:
        """What is there, at most so many messages; where nothing is, what comes first within ``timeout`` seconds.

        (``consume`` alone waits all of its time for all that it was asked for.)
        """
        first: list[Any] = consumer.consume(1, timeout=timeout)
        found = [*first, *consumer.consume(most - 1, timeout=0)] if first else first
        # The client asks for its group, without a right to it, too; what is read here is of no group.
        foreign = self.kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
        return [one for one in found if one.error() is None or one.error().code() != foreign]

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Have no question wait longer than that, for who has something else to do."""
        before, self.patience = self.patience, min(seconds, self.patience)
        try:
            yield
        finally:
            self.patience = before

    def served(self, act: Callable[[], T]) -> T:
        """What a producer's ``flush`` or ``poll`` returns. Raises KafkaException for an error that ends the producer.

        librdkafka's Python client raises such an error wherever it is, also between reports of deliveries. The report
        that comes next is not carried out then, and that hides the error behind a SystemError.
        """
        try:
            return act()
        except SystemError as broken:
            if isinstance(broken.__cause__, self.kafka.KafkaException):
                raise broken.__cause__ from None
            raise

    @property
    def admin(self) -> Any:
        """The client for questions about topics; one for all of them."""
        if self._admin is None:
            self._admin = self._made(self.questions.AdminClient, self.settings())
        return self._admin

    def request(self, what: str, question: Callable[[], T]) -> T:
        """The answer to a question, asked again while the cluster reports that it is not ready, and not for longer than
        our patience. Raises MissingLogError for an unknown topic, UnavailableError without an answer.
        """
        deadline = time.monotonic() + self.patience
        while True:
            try:
                reply = question()
                self.answered()
                return reply
            except self.kafka.KafkaException as cause:
                error = cause.args[0]
            except TimeoutError:
                error = None
            if time.monotonic() >= deadline or error is None or not self._passes(error):
                self.fail(what, error)
            time.sleep(0.1)

    def topic_id(self, topic: str) -> str:
        """Kafka's identity of the topic: a recreated topic of its name has another. Raises as :meth:`request`."""
        names = self.kafka.TopicCollection([topic])
        found = self.request(
            f"topic {topic!r}",
            lambda: self.admin.describe_topics(names, request_timeout=self.patience)[topic].result(self.patience),
        )
        return str(found.topic_id)

    def fail(self, what: str, error: Any) -> NoReturn:
        """Raise our error for one of librdkafka's (None: no answer came in time); ``what`` is named in it."""
        raise self.error(what, error)

    def error(self, what: str, error: Any) -> Cdcv2Error:
        """The same error, not raised."""
        if self._admin is not None:
            # librdkafka reports what it received only when it is polled.
            self._admin.poll(0)
        if error is not None and self.missing(error):
            return MissingLogError(
                f"there is no {what} at {self.bootstrap}: the name is wrong, or it has not been written yet"
            )
        reply = "" if error is None else f": {error.str()}"
        past = f" (last error: {self._last_error})" if self._last_error and self._last_error not in reply else ""
        if error is not None and error.code() in self._codes(*_FORBIDDEN):
            forbidden = UnavailableError(
                f"Kafka at {self.bootstrap} does not let us use {what}{reply}{past}: get the right "
                "(docs/operations/kafka.md#rights-in-kafka)"
            )
            forbidden.forbidden = True
            return forbidden
        return UnavailableError(
            f"Kafka at {self.bootstrap} does not answer for {what}{reply}{past}: start it, or correct its address "
            "and settings"
        )

    def forbidden(self, error: Any) -> bool:
        """Whether an error of librdkafka's means that we have no right to something."""
        return error.code() in self._codes(*_FORBIDDEN)

    def place(self, topic: str, part: int, offset: int, known: tuple[int, int | None] | None = None) -> Any:
        """From where a partition is read. ``known``: the offset behind a record that was read, and its leader's epoch.

        With that, the broker notices where the topic was cut off behind the record, and written over.
        """
        epoch = known[1] if known is not None and known[0] == offset else None
        more = {} if epoch is None else {"leader_epoch": epoch}
        return self.kafka.TopicPartition(topic, part, offset, **more)

    def removed(self, error: Any) -> bool:
        """Whether an error of librdkafka's means that records are not there that were to be read, or that were read."""
        return error.code() in self._codes(*_REMOVED)

    def missing(self, error: Any) -> bool:
        """Whether an error of librdkafka's means that there is no such topic."""
        return error.code() in self._codes(*_MISSING)

    def _passes(self, error: Any) -> bool:
        """Whether a question may find another answer soon: a topic just made has no leader for a moment."""
        return bool(error.retriable()) or error.code() in self._codes(*_PASSING)

    def _codes(self, *names: str) -> set[int]:
        return {getattr(self.kafka.KafkaError, name) for name in names}

    def _made(self, kind: Any, settings: dict[str, Any]) -> Any:
        try:
            return kind(settings)
        except self.kafka.KafkaException as cause:
            text = cause.args[0].str()
            # The name of an unknown setting may be shown; of a wrong value nothing may.
            which = text if text.startswith("No such configuration property") else "a value that it cannot have"
        raise UsageError(f"the Kafka settings in {self._file} are refused: {which}")

    def answered(self) -> None:
        """The cluster answers: its next absence is logged again."""
        self._down = False

    def _receive(self, error: Any) -> None:
        if error.code() != self.kafka.KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()
        elif not self._down:
            self._down = True
            LOGGER.warning("Kafka at %s does not answer: %s", self.bootstrap, self._last_error or "no broker is there")

    def __repr__(self) -> str:
        return f"Client({self.bootstrap!r})"


def read_properties(path: str | Path) -> dict[str, str]:
    """The settings in a properties file: ``key=value`` lines, ``#`` comments, a trailing backslash goes on.

    Raises UsageError for a file that is not there, and a line that is no setting; the line is not shown.
    """
    text = text_of(path, f"the Kafka settings in {path}")
    found: dict[str, str] = {}
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        whole = begun + line.strip()
        begun = ""
        if not whole or whole[0] in "#!":
            continue
        if whole.endswith("\\"):
            begun = whole[:-1]
            continue
        name, equals, value = whole.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{path}, line {number}: a setting is written key=value")
        found[name.strip()] = value.strip()
    return found


def translated(properties: dict[str, str]) -> dict[str, str]:
    """Settings of Java's clients as librdkafka has them; what both have stays. Raises UsageError for JKS stores."""
    out: dict[str, str] = {}
    for name, value in properties.items():
        if name in _PEM_NAMES:
            store = name.rpartition(".")[0].removesuffix(".certificate")
            if name.endswith(".location") and properties.get(f"{store}.type", "JKS").upper() != "PEM":
                raise UsageError(f"{name} is no PEM file: convert the store, and set {store}.type=PEM")
            out.update(dict.fromkeys(_PEM_NAMES[name], value))
        elif name == "ssl.endpoint.identification.algorithm":
            out[name] = value or "none"
        elif name not in _JAVA_ONLY:
            out[name] = value
    for name, quoted, bare in _JAAS.findall(properties.get("sasl.jaas.config", "")):
        out.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", quoted) or bare)
    return out


def _confluent_kafka() -> tuple[Any, Any]:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as cause:
        raise MissingExtraError("Kafka needs its client", "kafka") from cause
    return confluent_kafka, confluent_kafka.admin
