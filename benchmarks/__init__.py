"""One question per file, asked in the same run as what a user would otherwise do; the answers stay in ``results/``.

``python -m benchmarks`` asks all of them, ``python -m benchmarks NAME`` one. See ``README.md`` for how to add one.
"""
