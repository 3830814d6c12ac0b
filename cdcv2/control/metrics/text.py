"""Metrics in Prometheus's text form, by Prometheus's own library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cdcv2.control.metrics.model import METRICS, MetricSample
from cdcv2.errors import MissingExtraError

#: What the form is called in HTTP.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text_of(samples: Iterable[MetricSample]) -> str:
    """The text of all samples. Raises MissingExtraError without the library."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError as cause:
        raise MissingExtraError("metrics need Prometheus's client", "control") from cause
    by_name: dict[str, list[MetricSample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)

    class _Samples:
        def collect(self) -> Iterator[Any]:
            for metric in METRICS:
                family = (CounterMetricFamily if metric.total else GaugeMetricFamily)(
                    metric.name, metric.text, labels=metric.labels
                )
                for sample in by_name.get(metric.name, ()):
                    family.add_metric(sample.labels, sample.value)
                if family.samples:
                    yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples())  # type: ignore[arg-type,unused-ignore]  # it has what is called of a Collector
    text: bytes = generate_latest(registry)
    return text.decode("utf-8")
