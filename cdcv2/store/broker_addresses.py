"""The addresses of Kafka's brokers, judged before a client has them: librdkafka takes ``k:abc`` for the port 0."""

from __future__ import annotations

import re

from cdcv2.errors import UsageError

#: A broker: perhaps its protocol, its host (of IPv6 in brackets), perhaps its port.
_BROKER = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[^\]\s]+\]|[^\s:/@\[\]]+)(?::(\d{1,5}))?", re.ASCII)
#: The greatest port.
_LAST = 65535


def demand_brokers(text: str) -> str:
    """The text, which is ``HOST:PORT``, or several with commas; a host alone has the port 9092.

    Raises UsageError for what is none.

    >>> demand_brokers("one:9092, SASL_SSL://[::1]:9093,two")
    'one:9092, SASL_SSL://[::1]:9093,two'
    >>> demand_brokers("one:port")
    Traceback (most recent call last):
        ...
    cdcv2.errors.UsageError: 'one:port' is no address of a broker of Kafka: write HOST:PORT, a port from 1 to 65535
    """
    for one in filter(None, map(str.strip, text.split(","))):
        found = _BROKER.fullmatch(one)
        if found is None or not 1 <= int(found[1] or 1) <= _LAST:
            raise UsageError(
                f"{one!r} is no address of a broker of Kafka: write HOST:PORT, a port from 1 to {_LAST}"
            )
    return text
