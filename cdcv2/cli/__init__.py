"""The sub-commands of ``cdcv2``, one module each; ``cdcv2/cli/main.py`` imports only the one that is asked for.

A module offers ``configure(parser)``, which declares its arguments, ``run(args)``, which does the work and returns
an :class:`~cdcv2.exits.Exit`, and ``EXAMPLES``, which its ``--help`` shows and the tests run. Results go to standard
output (or to ``--output``), everything said about them to standard error. A module catches no ``Cdcv2Error`` but to say
it better: :func:`cdcv2.exits.exit_of` makes the exit code of it, in one place for all.
"""
