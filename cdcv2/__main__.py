"""``python -m cdcv2`` is the ``cdcv2`` command."""

import sys

from cdcv2.cli.main import command

if __name__ == "__main__":
    sys.exit(command())
