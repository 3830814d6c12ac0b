"""What a runtime and a driver say to each other, and in which turns; no I/O."""
