"""The tests, in the same folders as the package; a package itself so that `tests.oracle` and its like can be imported."""
