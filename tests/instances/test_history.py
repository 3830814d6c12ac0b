"""The reduced history makes the same of an instance as the whole, is as short as what lives, and reduces to itself."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.instances.commands import (
    LEAST, AllowCompaction, CancelPeek, Command, CreateIndex, CreateInstance, InitializationComplete, Peek, Tail,
    TailResponse,
)
from cdcv2.instances.history import CommandHistory, reduce_history
from cdcv2.instances.instance import IndexInstance
from tests.instance_schedules import END, FORM, TABLES, Log, cut, index_of, log_of


def test_an_instance_of_the_reduced_history_answers_every_later_command_alike() -> None:
    """Whatever follows, and wherever the logs are cut then; the oracle is an instance that got the whole."""
    for seed in range(120):
        random = Random(seed)
        log, commands = log_of(random), drawn(random)
        reduced = reduce_history(commands)
        whole, short = started(commands), started(reduced)
        assert answers(log, whole, commands, Random(seed)) == answers(log, short, commands, Random(seed)), seed


def test_reduction_changes_nothing_the_second_time_and_leaves_what_lives() -> None:
    """A command for each index, peek and tail that lives, and one more for an index that is held back."""
    for seed in range(200):
        commands = drawn(Random(seed))
        reduced = reduce_history(commands)
        indexes = {one.id for one in reduced if isinstance(one, CreateIndex)}
        allowed = [one.id for one in reduced if isinstance(one, AllowCompaction)]
        kinds = [_ORDER.index(type(one)) for one in reduced]

        assert reduce_history(reduced) == reduced
        assert kinds == sorted(kinds), "peeks and tails come before compactions"
        assert len(set(allowed)) == len(allowed) and set(allowed) <= indexes
        assert not any(isinstance(one, CancelPeek) for one in reduced)
        assert {one.uuid for one in reduced if isinstance(one, (Peek, Tail))} == living(commands)


def test_a_peek_is_never_refused_for_a_later_compaction() -> None:
    peek, allow = Peek("p", "main", {"orders": ((1,),)}, 3), AllowCompaction("main", Antichain([9]))

    reduced = reduce_history([CreateInstance("a"), index_of(), peek, allow])

    assert reduced == [CreateInstance("a"), index_of(since=3), peek, allow]


def test_create_instance_punctuates_the_history() -> None:
    """What another life of the controller sent counts no more."""
    old = [CreateInstance("a"), index_of("old"), Peek("p", "old", {}, 3)]

    assert reduce_history([*old, CreateInstance("b"), index_of()]) == [CreateInstance("b"), index_of()]


def test_what_a_client_has_of_a_tail_is_not_sent_to_a_new_instance() -> None:
    tail, got = Tail("t", "main", "orders"), AllowCompaction("t", Antichain([6]))
    allow = AllowCompaction("main", Antichain([9]))

    reduced = reduce_history([CreateInstance("a"), index_of(), tail, allow, got])

    assert reduced[1:] == [index_of(since=5), Tail("t", "main", "orders", Antichain([6])), allow]


def test_a_history_takes_no_more_memory_than_twice_what_lives() -> None:
    history = CommandHistory([CreateInstance("a"), index_of()])
    for number in range(10_000):
        history.push(Peek(str(number), "main", {}, 99))
        history.push(CancelPeek(str(number)))

    assert len(history) <= 10
    assert history.reduce() == [CreateInstance("a"), index_of()]


def test_a_history_is_reduced_when_it_is_twice_as_long_as_after_the_last_time() -> None:
    """And not before, so that each command is looked at twice."""
    lives = [CreateInstance("a"), index_of(), *(Peek(str(number), "main", {}, 9) for number in range(4))]
    history, lengths = CommandHistory(lives), []
    for number in range(16):
        history.push(CancelPeek(f"x{number}"))
        lengths.append(len(history))
    # Up to eight, and then up to twice the six that live.
    assert [7, 8, 6, *range(7, 13), 6, *range(7, 13)] == lengths


def test_what_was_not_sent_is_not_in_the_reduced_history() -> None:
    """Neither a beginning nor an end; an end is the end."""
    peek = Peek("p", "main", {}, 3)
    assert [] == reduce_history([]) == reduce_history([CancelPeek("p"), CancelPeek("p")])
    assert [index_of(), peek] == reduce_history([index_of(), peek])
    assert [CreateInstance("a"), index_of(), peek, InitializationComplete()] == reduce_history(
        [CreateInstance("a"), index_of(), InitializationComplete(), peek]
    )
    assert [CreateInstance("b")] == reduce_history([CreateInstance("a"), InitializationComplete(), CreateInstance("b")])


_ORDER = [CreateInstance, CreateIndex, Peek, Tail, AllowCompaction, InitializationComplete]


def drawn(random: Random) -> list[Command]:
    """A history in the order of the stages, of two indexes, the first of which may be dropped."""
    commands: list[Command] = [CreateInstance("a"), index_of("main", random.randrange(4)), index_of("more")]
    since = {one.id: one.since for one in commands if isinstance(one, CreateIndex)}
    tails: dict[str, Antichain] = {}
    for number in range(random.randrange(25)):
        name = random.choice(sorted(since))
        match random.randrange(8):
            case 0 | 1:
                keys = {table: ((random.randrange(3),),) for table in TABLES}
                commands.append(Peek(f"p{number}", name, keys, random.randrange(since[name], END)))
            case 2:
                commands.append(CancelPeek(f"p{random.randrange(number + 1)}"))
            case 3:
                after = random.choice((LEAST, Antichain([random.randrange(since[name] + 1, END + 1)])))
                begins = random.randrange(since[name], END)
                commands.append(Tail(f"t{number}", name, random.choice(TABLES), after, begins))
                # Less than its first batch has is never confirmed.
                tails[f"t{number}"] = after.join(Antichain([begins + 1])) if after == LEAST else after
            case 4 if tails:
                tail = random.choice(sorted(tails))
                tails[tail] = tails[tail].join(Antichain([random.randrange(END)] if random.random() < 0.8 else []))
                commands.append(AllowCompaction(tail, tails[tail]))
                if not tails[tail]:
                    del tails[tail]
            case 5 | 6:
                since[name] = random.randrange(since[name], END)
                commands.append(AllowCompaction(name, Antichain([since[name]])))
            case 7 if name == "more" and random.random() < 0.3:
                del since[name]
                commands.append(AllowCompaction(name, Antichain()))
                tails = {uuid: at for uuid, at in tails.items() if tail_of(commands, uuid).id in since}
    return commands


def tail_of(commands: list[Command], uuid: str) -> Tail:
    return next(one for one in commands if isinstance(one, Tail) and one.uuid == uuid)


def living(commands: list[Command]) -> set[str]:
    """The peeks and tails that live after a history, found by looking ahead from each: the slow way."""
    found = set()
    for place, one in enumerate(commands):
        if isinstance(one, (Peek, Tail)):
            later = commands[place:]
            ends = [CancelPeek(one.uuid), AllowCompaction(one.id, Antichain()), AllowCompaction(one.uuid, Antichain())]
            found |= set() if any(end in later for end in ends) else {one.uuid}
    return found


def started(commands: list[Command]) -> IndexInstance:
    """An instance that obeyed each command as it came, which is no reduction."""
    instance = IndexInstance(lambda table: FORM)
    instance.receive(commands[0])
    instance.receive(InitializationComplete())
    for command in commands[1:]:
        instance.receive(command)
    return instance


def answers(log: Log, instance: IndexInstance, before: list[Command], random: Random) -> list[Any]:
    """What clients are given when the logs are read, with more commands in between."""
    found: list[Any] = []
    since = {one.id: one.since for one in before if isinstance(one, CreateIndex)}
    since |= {one.id: one.frontier.integer or 0 for one in before if isinstance(one, AllowCompaction)}
    confirmed = {one.id: one.frontier for one in before if isinstance(one, AllowCompaction)}
    for number, upper in enumerate((Antichain([5]), Antichain([9]), Antichain())):
        for name in sorted(instance.indexes):
            # The order of responses to several requests is not promised.
            given = instance.apply(name, cut(log, instance.upper(name), upper), upper)
            found += sorted(str(what_is_new(one, confirmed)) for one in given)
            peek = Peek(f"later{number}{name}", name, {"orders": ((1,), (2,))}, random.randrange(since[name], END + 1))
            found += instance.receive(peek)
            if number == 1:
                begins = random.randrange(since[name], END)
                found += instance.receive(Tail(f"tail{name}", name, "items", since=begins))
                found += instance.receive(AllowCompaction(name, Antichain([END])))
                since[name] = END
    # An index of the whole history reports from its first since on, and one of the reduced history from the new one.
    return [one for one in found if one != "None" and not str(one).startswith("Frontiers")]


def what_is_new(answer: Any, confirmed: dict[str, Antichain]) -> Any:
    """Of a batch, what the client has not confirmed: an instance of the reduced history begins there."""
    has = confirmed.get(answer.uuid) if isinstance(answer, TailResponse) else None
    if has is None:
        return answer
    if has.dominates(answer.upper):
        return None
    changes = tuple(one for one in answer.changes if has.less_equal(one.time))
    return replace(answer, lower=has.join(answer.lower), changes=changes)
