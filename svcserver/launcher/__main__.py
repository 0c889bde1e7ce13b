"""``python -m svcserver.launcher``."""

import sys

from svcserver.launcher.main import main

sys.exit(main())
