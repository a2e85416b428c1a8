"""Keeps what other packages print while an environment is made from the user's screen and folder.

Only notices that say nothing about what is being made are held back: MuJoCo's on `settotalmass`, which it
would also write to a file in the working directory, and gymnasium-robotics' on reward functions that
`ploff.environments.adroit` mends.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator

from ploff.utils.errors import require

HARMLESS = "settotalmass"


@contextlib.contextmanager
def quiet_mujoco() -> Iterator[None]:
    """Holds back the warning on `settotalmass`; any other becomes a Python warning."""
    mujoco = require("mujoco", extra="mujoco")
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_as_python_warning)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _as_python_warning(message: str) -> None:
    if HARMLESS not in message:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Holds back what a package prints while it is imported."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield
