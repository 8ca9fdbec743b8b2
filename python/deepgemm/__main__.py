"""``python -m deepgemm``: the command line."""

import sys

from deepgemm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
