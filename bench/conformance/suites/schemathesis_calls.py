"""Schemathesis: no 5xx and no answer of another shape, status or content type than our own OpenAPI documents say.

The documents and the checks are those of `make fuzz`, which draws more examples. A case is an operation
and a check.
"""

from __future__ import annotations

import os

from record import KEY, URL
from under_schemathesis import fuzz, tried

ADMIN_KEY = os.environ["CONFORMANCE_ADMIN_KEY"]
EXAMPLES = 10

if __name__ == "__main__":
    ROOT = URL.removesuffix("/v1")
    tried("admin API: ", fuzz.described(ROOT, ADMIN_KEY, "."), ROOT, ADMIN_KEY, EXAMPLES)
    tried("model API: ", fuzz.MODEL_API, ROOT, KEY, EXAMPLES)
