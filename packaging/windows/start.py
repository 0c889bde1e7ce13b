"""The start of the Windows program, which svc-launcher.exe runs."""

import sys

sys.argv[0] = sys.executable  # the program itself, for the registration of svc: links

try:
    from svcserver.launcher.main import main
except ImportError as error:  # such as a file that a virus scanner removed
    import ctypes

    text = (
        f"A part of the launcher is missing ({error.name or error}). Unzip the whole folder again."
    )
    ctypes.windll.user32.MessageBoxW(None, text, "svc-launcher", 0x10)
    sys.exit(1)

sys.exit(main())
