"""What all tests share: a compiler in a hurry, and shapes that are checked when functions are called."""

import os
import pathlib

from jaxtyping import install_import_hook

# Compiling takes most of the tests' time and their programs are small.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# What one process of the tests has compiled, the others read.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many processes run as there are cores
# Wherever arrays are annotated with their shapes.
SHAPED = ("actions", "agents", "experiments.statistics", "metric", "neighbors", "networks", "theory", "transitions")
install_import_hook([f"ploff.{name}" for name in (*SHAPED, "training.train_state")], "typechecker.check")
