"""`python -m mxdot.cli`."""

import sys

from . import main

sys.exit(main())
