"""The start of the Windows program, which svc-launcher.exe runs.

If this script ends without an exit status, svc-launcher.exe reports the fault in the variable.
"""

import os
import sys

sys.argv[0] = sys.executable  # the program itself, for the registration of svc: links

try:
    from svcserver.launcher.main import main
except Exception as error:  # a virus scanner may have removed or damaged a file
    os.environ["SVC_LAUNCHER_FAULT"] = f"{type(error).__name__}: {error}"
else:
    sys.exit(main())
