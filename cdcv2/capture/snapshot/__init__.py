"""How a snapshot is judged, in every way to capture: by commit times and on a timeline, with and without Spark.

Every decision about one is a function of ``rules``, and of its runs of ``run_rules``; ``remedies`` states in words what
to do. The rest keeps what the rules are asked about: :class:`~cdcv2.capture.snapshot.tracker.SnapshotTracker` all of
one connector, ``runs`` the notifications, ``extent`` the markers and how far the topics are read, ``positions`` which
rows were read, ``timeline_end`` the End that a timeline needs.

By commit times :class:`~cdcv2.capture.commit_transactions.CommitTransactions` asks the tracker. On a timeline
:class:`~cdcv2.capture.bound_transactions.BoundTransactions` holds the rows, and asks the same rules. ``declarations``
states which resnapshots can still be declared.

A snapshot is a set of rows with one LSN, spread over the topics of the tables. No row has their number. The first
snapshot has number 0; the resnapshots that the user has declared have the numbers from 1 on, in the order of their runs
(``runs``). Two witnesses can show that all rows are read:

- Debezium's notification topic: the run states for each table how many rows it scanned. The snapshot is whole when each
  table has exactly that many.
- Without it: the row marked ``last`` has been read, and then each partition of the tables up to where it ended at
  some moment after that, or up to its first streamed row. (A partition holds records in the order in which they were
  sent.) Such a snapshot is *assumed* whole, and its release states so.

A second snapshot has no exact seam with the stream: rows may be in both. So it is a clean stop, and is never merged.
The exception is a declared resnapshot. A connector that has lost its slot takes a snapshot again. What was committed
between the loss and the new slot is in no record, but the new snapshot contains it. So the difference between the logs
and that snapshot, at its LSN, makes the logs right again. The user must declare two things that no record shows:

- *which LSN it has*. Partitions are read in any order, so a transaction from behind the snapshot may be whole before
  anything of the snapshot is read. It would be released on a state that lacks what was lost. Once the LSN is declared,
  nothing above it is released before it;
- *that its slot was new*. On an existing slot, the snapshot is taken some time after its LSN: transactions are both in
  the snapshot and in the stream, and those times would be no cut.

A resnapshot is whole only when every partition was read up to where it ended after its run was complete, too. Then
everything that was committed up to its LSN, and that ever will be in the topics, is read. So a transaction that is
still not whole never will be: it is superseded. So is what comes behind an END that is lost before the resnapshot,
which is no reason to stop. This rule does not depend on the order of reading.
"""
