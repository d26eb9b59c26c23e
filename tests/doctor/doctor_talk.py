"""What the doctor's tests share beside the fixtures: pytest knows each conftest.py by its folder only."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("doctor_harness", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
_harness = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _harness  # dataclasses look their module up
_spec.loader.exec_module(_harness)

HEALTHY = _harness.HEALTHY
KEY = _harness.KEY
config = _harness.config
vllm = _harness.vllm
