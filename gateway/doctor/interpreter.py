"""How this interpreter was built, which is the cheapest speed there is. `make venv` asks before any package is installed.

python3 -m gateway.doctor.interpreter
"""

from __future__ import annotations

import sys
import sysconfig

WITHOUT = "without profile-guided optimisation: 3 to 9 % more instructions a request"


def name() -> str:
    return f"{sys.implementation.name} {sys.version.split()[0]}"


def optimised() -> bool:
    return profiled(sysconfig.get_config_var("CONFIG_ARGS") or "", sys.base_prefix)


def profiled(arguments: str, prefix: str) -> bool:
    """Built with profile-guided optimisation? Distributions do it by a way of their own, which `configure` does not show."""
    return "--enable-optimizations" in arguments or prefix == "/usr"


def told() -> str:
    if optimised():
        return name()
    return f"{name()}, built {WITHOUT} (PYTHON= names another)"


if __name__ == "__main__":
    print(told())
