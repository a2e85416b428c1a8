"""Compiling takes most of the tests' time and their programs are small: let the compiler hurry."""

import os

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
