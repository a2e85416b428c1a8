"""Arrow's functions on columns, which are made when they are imported and so unknown to a type checker."""

import importlib
from typing import Any

compute: Any = importlib.import_module("pyarrow.compute")
