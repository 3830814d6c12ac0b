"""Instances keep tables by key at every finished time, and answer peeks and tails. Decided here; no I/O."""
