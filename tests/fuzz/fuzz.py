"""Schemathesis over a running gateway: the admin API by its own OpenAPI document, the model API by `v1.yaml`.

    make fuzz [ARGS="--examples 200"]

No answer may be a 5xx, and none may be of another shape or content type than the document says. A client's own deadline
(504) is the one exception, where it is documented. Two look-alikes of vLLM are the backends.
"""

from __future__ import annotations

import argparse
import hashlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

MODEL_API = str(Path(__file__).with_name("v1.yaml"))
ENDPOINTS = "chat, completions, embeddings, responses, messages, rerank, score, tokenize, audio"
KEY, ADMIN_KEY = "tg-fuzz-key", "tg-fuzz-admin-key"
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance,status_code_conformance"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def config(port: int, small: int, large: int) -> str:
    models = "".join(
        f"  - {{name: {tier}-model, tier: {tier}, served_name: fake, endpoints: [{ENDPOINTS}],"
        f' replicas: [{{name: {tier}1, url: "http://127.0.0.1:{backend}/v1"}}]}}\n'
        for tier, backend in (("small", small), ("large", large))
    )
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    return (
        f"server: {{port: {port}}}\nadmin: {{key: {ADMIN_KEY}}}\nmodels:\n{models}"
        f'tenants: [{{name: fuzz, keys: [{{id: k1, sha256: "{digest}"}}]}}]\n'
    )


def wait(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} did not answer")


def described(url: str, admin_key: str, folder: str) -> str:
    """The file that the admin API's own document is put into."""
    file = Path(folder) / "admin.json"
    asked = urllib.request.Request(f"{url}/admin/openapi.json", headers={"authorization": f"Bearer {admin_key}"})
    with urllib.request.urlopen(asked, timeout=5) as answer:
        file.write_bytes(answer.read())
    return str(file)


def fuzz(schemathesis: str, document: str, url: str, key: str, examples: int, folder: str, *options: str) -> int:
    print(f"\n== {document}", flush=True)
    command = [
        schemathesis, "run", document, "--url", url, "--header", f"Authorization: Bearer {key}", "--checks", CHECKS,
        "--max-examples", str(examples), "--seed", "1", "--continue-on-failure", "--warnings", "off",
        "--exclude-path", "/admin/docs", *options,
    ]  # fmt: skip
    return subprocess.run(command, check=False, cwd=folder).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiergate", default="tiergate")
    parser.add_argument("--schemathesis", default="schemathesis")
    parser.add_argument("--examples", type=int, default=50, help="for each operation")
    args = parser.parse_args()
    gateway, small, large = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(config(gateway, small, large))
        commands = [[args.tiergate, "fake-vllm", "--port", str(port), "--model", "fake"] for port in (small, large)]
        commands.append([args.tiergate, "serve", "--config", str(file)])
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
        try:
            url = f"http://127.0.0.1:{gateway}"
            wait(f"{url}/ready")
            admin = described(url, ADMIN_KEY, folder)
            codes = [
                fuzz(args.schemathesis, admin, url, ADMIN_KEY, args.examples, folder),
                fuzz(args.schemathesis, MODEL_API, url, KEY, args.examples, folder),
            ]
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait()
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
