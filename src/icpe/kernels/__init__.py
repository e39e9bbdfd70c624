"""Compiled loops for data too large for the plain way.

Every kernel has a plain NumPy or polars twin, which small data takes and against which the kernel is tested. The
first call of a kernel compiles for a few seconds and the result is cached on disk, so below ``WORTH_COMPILING``
rows the twin is faster and nobody waits for a compiler on a small file.
"""

WORTH_COMPILING = 2_000_000
