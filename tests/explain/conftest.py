"""The gateway's harness, for those who compare what is told with what is done."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))  # what the harness itself imports from beside it
_spec = importlib.util.spec_from_file_location("gateway_harness_explained", Path(__file__).parents[1] / "gateway" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_harness = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _harness  # dataclasses look their module up
_spec.loader.exec_module(_harness)

how_many_workers = _harness.how_many_workers
start = _harness.start
stack = _harness.stack
