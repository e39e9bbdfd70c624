"""One thread for the numerical libraries."""

import os
import subprocess
import sys


def with_one_thread() -> None:
    """Run the script anew in a process that has one thread, unless this is it: BLAS reads that when it is loaded."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=os.environ | alone, check=False).returncode)
