"""What all tests share: a compiler in a hurry, and shapes that are checked when functions are called."""

import os

from jaxtyping import install_import_hook

# Compiling takes most of the tests' time and their programs are small.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Wherever arrays are annotated with their shapes.
SHAPED = ("actions", "agents", "experiments.statistics", "metric", "neighbors", "networks", "theory", "transitions")
install_import_hook([f"ploff.{name}" for name in (*SHAPED, "training.train_state")], "typechecker.check")
