"""A stand-in for vLLM that speaks as vLLM does, at any speed, and fails on demand.

async with FakeVLLM(Options(models=("small",), tokens=8)) as fake:
    ...                                   # requests go to fake.url
    fake.faults.add(status=503, times=1)
    assert fake.calls[-1].aborted is False
"""

from gateway.lab.fake.faults import Fault, Faults
from gateway.lab.fake.handle import FakeVLLM
from gateway.lab.fake.log import Entry
from gateway.lab.fake.options import Options, duration
from gateway.lab.fake.script import Script

__all__ = ["Entry", "FakeVLLM", "Fault", "Faults", "Options", "Script", "duration"]
