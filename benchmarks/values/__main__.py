"""`python -m benchmarks.values`."""

import sys

from benchmarks.values.command import main

sys.exit(main())
