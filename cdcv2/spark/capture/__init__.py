"""Captures on Spark: in the order of commits, and of any stream with data, time, diff and a bound."""
