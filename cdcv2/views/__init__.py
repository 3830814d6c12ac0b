"""What a view of a log is: its binding, reductions and columns, and how its rows are combined. No I/O."""
