"""A driver that is a program of its own, in any language."""
