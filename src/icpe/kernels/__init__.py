"""Compiled loops for large data.

Every kernel has an equivalent in NumPy, polars or torch, which is used for small data and against which the kernel is
tested. The first call of a kernel compiles for a few seconds, and the result is cached on disk. Below
``WORTH_COMPILING`` rows the equivalent is faster, and nobody has to wait for a compiler.
"""

WORTH_COMPILING = 2_000_000
