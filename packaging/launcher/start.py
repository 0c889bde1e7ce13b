"""Starts the launcher; PyInstaller needs a file as its entry point."""

import sys

from svcserver.launcher.main import main

sys.exit(main())
