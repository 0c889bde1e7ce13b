"""Starts the launcher; PyInstaller needs a file to begin with."""

import sys

from svcserver.launcher.main import main

sys.exit(main())
