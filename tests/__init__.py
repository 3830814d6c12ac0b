"""The tests, in the folders of the package; itself a package, so that `tests.oracle` can be imported."""
