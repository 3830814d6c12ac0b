"""The kinds of external state: how each is looked at, made, changed and removed in its own system."""
