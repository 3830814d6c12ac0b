"""What the document lists as quirks, and what its rules come to, each by name."""

from __future__ import annotations

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError
from cdcv2.instances.commands import (
    CANCELED, AllowCompaction, CancelPeek, Command, CreateInstance, DroppedAt, Frontiers, InitializationComplete, Peek,
    PeekResponse, RowCount, Tail, TailResponse,
)
from cdcv2.instances.instance import IndexInstance
from cdcv2.instances.reconcile import difference
from cdcv2.instances.replicas import ReplicaSet
from tests.instance_schedules import FORM, index_of

ROWS = {"orders": [((1, 0), 2, 1), ((1, 1), 6, 1)]}
PEEK = Peek("p", "main", {"orders": ((1,),)}, 3)


def session(instance: IndexInstance, *commands: Command) -> list[object]:
    """A new session with this history; the responses to its end mark."""
    instance.connect()
    for command in (CreateInstance("a"), *commands):
        assert instance.receive(command) == []
    return list(instance.receive(InitializationComplete()))


@pytest.fixture
def instance() -> IndexInstance:
    """One that has an index up to 9."""
    made = IndexInstance(lambda table: FORM)
    session(made, index_of())
    made.apply("main", ROWS, Antichain([9]))
    return made


def test_what_is_kept_reports_at_once_how_far_it_is(instance: IndexInstance) -> None:
    """The controller assumes the least frontier, and would wait for ever where nothing new happens."""
    assert session(instance, index_of(since=0)) == [Frontiers("main", Antichain([9]))]
    assert instance.reconciliation is not None and instance.reconciliation.text == "kept main"


def test_an_equal_since_is_compatible(instance: IndexInstance) -> None:
    session(instance, index_of(since=4))
    instance.receive(AllowCompaction("main", Antichain([5])))

    session(instance, index_of(since=5))

    assert instance.reconciliation is not None and instance.reconciliation.text == "kept main"


def test_what_is_compacted_further_than_requested_is_replaced_and_reads_again(instance: IndexInstance) -> None:
    instance.receive(AllowCompaction("main", Antichain([5])))

    assert session(instance, index_of(since=4), Peek("p", "main", PEEK.keys, 4)) == []
    assert instance.upper("main") == Antichain([0])
    assert instance.reconciliation is not None
    assert instance.reconciliation.text == "replaced main (it is compacted up to 5, and 4 is requested)"


def test_an_index_of_another_log_or_key_is_replaced() -> None:
    """A name alone identifies nothing: the topic may have been made again."""
    assert "log" in str(difference(index_of(), 0, index_of(log="2")))
    keyed = index_of()
    tables = tuple(table._replace(key=("value",)) for table in keyed.tables)
    assert "key" in str(difference(keyed, 0, type(keyed)("main", tables)))
    assert "tables" in str(difference(keyed, 0, type(keyed)("main", keyed.tables[:1])))


def test_what_is_not_in_the_history_is_dropped(instance: IndexInstance) -> None:
    """Without a word: of a session that is over."""
    assert session(instance, index_of("other")) == []
    assert set(instance.indexes) == {"other"}


def test_a_late_instance_reports_no_frontier_before_its_since() -> None:
    """The default frontier is the least one; an index that is at 3 of a since of 5 can answer nothing."""
    late = IndexInstance(lambda table: FORM)
    session(late, index_of(since=5))

    assert late.apply("main", {}, Antichain([3])) == []
    assert late.apply("main", {}, Antichain([5])) == []
    assert late.apply("main", {}, Antichain([6])) == [Frontiers("main", Antichain([6]))]


def test_while_both_disagree_a_peek_waits_and_is_answered() -> None:
    """The controller does not know yet how far the instance is; the command is valid all the same."""
    replicas, late = ReplicaSet("a", [index_of()]), IndexInstance(lambda table: FORM)
    sent = replicas.connect("one").commands
    sent += replicas.peek(PEEK).commands
    for _, command in sent:
        assert late.receive(command) == []

    answer = late.apply("main", ROWS, Antichain([9]))[1]

    assert replicas.receive("one", answer).answers == [PeekResponse("p", {"orders": ((RowCount([1, 0], 1),),)})]


def test_an_unknown_id_is_a_fault_and_cancelling_an_unknown_peek_is_none(instance: IndexInstance) -> None:
    assert instance.receive(CancelPeek("never")) == []
    for command in (Peek("p", "no", {}, 3), Tail("t", "no", "orders"), AllowCompaction("no", Antichain([3]))):
        with pytest.raises(ConversationError, match="the controller sent .* 'no', which is"):
            instance.receive(command)


def test_a_peek_gets_one_answer_whether_it_is_cancelled_before_or_behind_it(instance: IndexInstance) -> None:
    late = Peek("late", "main", PEEK.keys, 20)

    assert instance.receive(late) == []
    assert instance.receive(CancelPeek("late")) == [PeekResponse("late", error=CANCELED)]
    assert len(instance.receive(PEEK)) == 1
    assert instance.receive(CancelPeek("p")) == []


def test_a_peek_before_what_was_allowed_is_the_controllers_fault(instance: IndexInstance) -> None:
    instance.receive(AllowCompaction("main", Antichain([5])))

    with pytest.raises(ConversationError, match="before what was allowed"):
        instance.receive(Peek("p", "main", PEEK.keys, 4))


def test_a_peek_that_waits_holds_its_time(instance: IndexInstance) -> None:
    """It was requested before the compaction was allowed, and is answered as of its time."""
    far = IndexInstance(lambda table: FORM)
    session(far, index_of(), PEEK, AllowCompaction("main", Antichain([8])))

    answers = far.apply("main", ROWS, Antichain([9]))

    assert PeekResponse("p", {"orders": ((RowCount([1, 0], 1),),)}) in answers


def test_dropping_an_index_ends_what_was_requested_of_it(instance: IndexInstance) -> None:
    instance.receive(Peek("late", "main", PEEK.keys, 20))
    instance.receive(Tail("t", "main", "orders"))

    answers = instance.receive(AllowCompaction("main", Antichain()))

    reason = "the index main was dropped"
    assert answers == [PeekResponse("late", error=reason), DroppedAt("t", Antichain([9]), reason)]
    assert instance.indexes == {}


def test_a_replica_that_is_behind_or_that_regresses_changes_nothing() -> None:
    replicas = ReplicaSet("a", [index_of()])
    for name in ("one", "two"):
        replicas.connect(name)

    assert replicas.receive("one", Frontiers("main", Antichain([9]))).answers == [Frontiers("main", Antichain([9]))]
    assert replicas.receive("two", Frontiers("main", Antichain([4]))).answers == []
    replicas.connect("one")
    assert replicas.receive("one", Frontiers("main", Antichain([2]))).answers == []
    assert replicas.upper("main") == Antichain([9])


def test_a_tail_is_contiguous_over_two_replicas() -> None:
    """Each sends batches of its own; the client gets each change once."""
    replicas = ReplicaSet("a", [index_of()])
    sets = {name: IndexInstance(lambda table: FORM) for name in ("one", "two")}
    for name, one in sets.items():
        for _, command in replicas.connect(name).commands:
            one.receive(command)
    for name, command in replicas.tail(Tail("t", "main", "orders")).commands:
        sets[name].receive(command)
    batches = []
    for name, upper in (("one", 4), ("two", 9), ("one", 7), ("one", 10)):
        lower = sets[name].upper("main")
        rows = {"orders": [one for one in ROWS["orders"] if lower.less_equal(one[1]) and one[1] < upper]}
        for answer in sets[name].apply("main", rows, Antichain([upper])):
            batches += [one for one in replicas.receive(name, answer).answers if isinstance(one, TailResponse)]

    assert [(one.lower.integer, one.upper.integer, len(one.changes)) for one in batches] == [
        (0, 4, 1), (4, 9, 1), (9, 10, 0),
    ]  # fmt: skip


def test_a_new_replica_continues_a_tail_where_its_client_is() -> None:
    replicas = ReplicaSet("a", [index_of()])
    replicas.connect("one")
    replicas.tail(Tail("t", "main", "orders"))
    replicas.receive("one", TailResponse("t.1", Antichain([0]), Antichain([10])))

    assert Tail("t.1", "main", "orders", Antichain([10])) in [one for _, one in replicas.connect("two").commands]


def test_what_is_allowed_and_needed_by_none_is_forgotten(instance: IndexInstance) -> None:
    """A row that changes a hundred times is one row then; a tail needs the time before what its client has."""
    changes = [((1, one), 9 + one, 1) for one in range(100)] + [((1, one), 10 + one, -1) for one in range(99)]
    instance.apply("main", {"orders": changes}, Antichain([200]))
    full = instance.size("main")
    instance.receive(Tail("t", "main", "orders", Antichain([50])))

    instance.receive(AllowCompaction("main", Antichain([199])))
    held = instance.size("main")
    instance.receive(AllowCompaction("t", Antichain([200])))

    assert full > held > 50 > instance.size("main")


def test_the_catalogue_has_what_was_allowed_as_far_as_none_needs_it() -> None:
    """So a successor of the controller answers a peek again that waits, and no instance starts again for it."""
    replicas = ReplicaSet("a", [index_of()])
    replicas.peek(PEEK)
    replicas.allow("main", Antichain([5]))
    assert [index.since for index in replicas.indexes] == [3]

    replicas.cancel("p")

    assert [index.since for index in replicas.indexes] == [5]


def test_a_uuid_may_be_requested_again_while_answers_to_it_are_on_their_way() -> None:
    """They are of a request that is over: neither given, nor a fault of the replica."""
    replicas = ReplicaSet("a", [index_of()])
    for name in ("one", "two"):
        replicas.connect(name)
    replicas.peek(PEEK)
    replicas.tail(Tail("t", "main", "orders"))
    replicas.cancel("p")
    replicas.peek(PEEK)
    replicas.tail(Tail("t", "main", "orders", Antichain([4])))

    assert replicas.receive("one", PeekResponse("p.1", error=CANCELED)).answers == []
    assert replicas.receive("one", TailResponse("t.2", Antichain([0]), Antichain([6]))).answers == []
    assert replicas.receive("one", PeekResponse("p.3")).answers == [PeekResponse("p")]
    batch = TailResponse("t.4", Antichain([4]), Antichain([6]))
    assert replicas.receive("two", batch).answers == [TailResponse("t", Antichain([4]), Antichain([6]))]


def test_an_answered_peek_is_cancelled_at_all_replicas() -> None:
    """They hold its time until then."""
    replicas = ReplicaSet("a", [index_of()])
    for name in ("one", "two"):
        replicas.connect(name)
    replicas.peek(PEEK)

    sent = replicas.receive("two", PeekResponse("p.1"))

    assert sent.commands == [("one", CancelPeek("p.1")), ("two", CancelPeek("p.1"))]


def test_ten_thousand_cancelled_peeks_leave_nothing(instance: IndexInstance) -> None:
    """For a time that does not come, on both sides."""
    replicas = ReplicaSet("a", [index_of()])
    for number in range(10_000):
        replicas.peek(Peek(str(number), "main", PEEK.keys, 99))
        replicas.cancel(str(number))
        instance.receive(Peek(str(number), "main", PEEK.keys, 99))
        instance.receive(CancelPeek(str(number)))

    assert replicas.waiting == (0, 0)
    assert len(replicas.connect("one").commands) == 3
    for kept in (replicas, instance, replicas._own, instance._session):
        assert all(len(value) <= 10 for value in vars(kept).values() if hasattr(value, "__len__"))
