"""The start of the Windows program, which svc-launcher.exe runs."""

import sys

sys.argv[0] = sys.executable  # the program itself, for the registration of svc: links

from svcserver.launcher.main import main  # noqa: E402 - after the program's name is set

sys.exit(main())
