"""How `tiergate fake-vllm` differs from vLLM, request by request.

    python tests/e2e/compare_fake.py --real PORT --fake PORT --key KEY [--only WORDS]

Both have to serve the models `e2e-small` and `e2e-both` under the key. `make e2e` does this with servers of its own and fails
on a difference that docs/fake-vllm.md does not list.
"""

import argparse
import json
import sys
from collections.abc import Iterator

import fake_cases
import wire_shape


def compare(real: int, fake: int, key: str, only: str = "") -> Iterator[tuple[str, list[str]]]:
    """(case, differences), for every case."""
    for case in fake_cases.cases(key):
        if only in case.name:
            answers = [wire_shape.ask(port, case.method, case.path, case.body, case.headers) for port in (real, fake)]
            yield case.name, wire_shape.differences(*map(wire_shape.shape, answers))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=int, required=True)
    parser.add_argument("--fake", type=int, required=True)
    parser.add_argument("--key", default="backend-key")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = dict(compare(args.real, args.fake, args.key, args.only))
    if args.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        for name, lines in found.items():
            for line in lines:
                print(f"{name}{line}")
    differing = sum(map(bool, found.values()))
    print(f"{len(found)} requests, {differing} answered differently", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
