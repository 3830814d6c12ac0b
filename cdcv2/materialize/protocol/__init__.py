"""The messages between a runtime and a driver, and in which turns they are sent; no I/O."""
