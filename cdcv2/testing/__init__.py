"""For the author of a driver: run every rule, and a crash, a stall and a zombie at each message, against it.

Define how to make one and how to look at its store (:class:`Subject`), and try every scenario::

    @pytest.mark.parametrize("scenario", scenarios(MySubject), ids=str)
    def test_my_driver_conforms(scenario):
        conform(MySubject, scenario)

The workload carries its own truth: sums, and a log that is appended to, in which a repetition shows, as it never does
where the last write wins. :class:`ConformanceError` reports what a scenario found wrong.
"""

from cdcv2.testing.conformance import Scenario, conform, scenarios
from cdcv2.testing.stage import ConformanceError, Instance, Stage, Subject
from cdcv2.testing.workload import Workload

__all__ = ["ConformanceError", "Instance", "Scenario", "Stage", "Subject", "Workload", "conform", "scenarios"]
