"""The sub-commands of ``cdcv2``, one module each; ``cdcv2/cli/main.py`` imports only the one that is asked for.

A module offers ``configure(parser)``, which declares its arguments, ``run(args)``, which does the work and returns
an :class:`~cdcv2.exits.Exit`, and ``EXAMPLES``, which its ``--help`` shows and the tests run. ``EXITS``, where there
is one, has what exit codes mean of that command, beside those of every command. Results go to standard output (or to
``--output``), every remark on them to standard error. A module catches a ``Cdcv2Error`` only to give it a better text:
:func:`cdcv2.exits.exit_of` makes the exit code of it, in one place for all.
"""
