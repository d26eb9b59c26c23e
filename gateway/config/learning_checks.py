"""Cross-checks of learning on own traffic."""

from __future__ import annotations

from gateway.config.checks import Report, behind, public_names
from gateway.config.schema import Config


def check_learning(config: Config, report: Report) -> None:
    learning, here = config.routing.learning, ("routing", "learning")
    if learning.judge is not None:
        report.unknown((*here, "judge"), "model", learning.judge, [name for _, name in public_names(config)])
        if (pools := behind(config, learning.judge)) and not any("chat" in pool.endpoints for pool in pools):
            report((*here, "judge"), f"the model {report.show(learning.judge)} does not serve chat")
    tenants = [tenant.name for tenant in config.tenants]
    for at, tenant in enumerate(learning.tenants):
        report.unknown((*here, "tenants", at), "tenant", tenant, tenants)
    if learning.share and not learning.enabled:
        report((*here, "share"), "needs enabled: true, or what it shows is written nowhere")
