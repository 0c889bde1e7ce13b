"""Only ``make prove`` collects the long tests; an ordinary run neither runs nor skips them."""

import os

collect_ignore_glob = [] if os.environ.get("SVC_TEST_PROVE") == "1" else ["test_*.py"]
