"""nginx as the floor: a reverse proxy that reads no body, whose configuration is ours."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.peers import Place

PROGRAM = "usr/sbin/nginx"

_CONFIG = """\
{user}
daemon off;
pid {folder}/nginx.pid;
worker_processes 1;
error_log stderr crit;
events {{ worker_connections 8192; }}
http {{
    log_format line '$time_iso8601 $status $request_time $upstream_addr $key "$request"';
    access_log {folder}/access.log line buffer=32k flush=1s;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 64m;
    client_body_buffer_size 2m;
    keepalive_requests 1000000000;
    map_hash_max_size 65536;
    map_hash_bucket_size 256;
    map $http_authorization $key {{
        default "";
{keys}
    }}
    upstream engines {{
        least_conn;
{servers}
        keepalive 1024;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            if ($key = "") {{ return 401; }}
            proxy_pass http://engines;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 300s;
        }}
    }}
}}
"""


def config(place: Place) -> str:
    """Who has a key may pass, to the engine with the fewest requests; a line for each in a log."""
    keys = "\n".join(f'        "Bearer {key}" k{number};' for number, key in enumerate(place.keys()))
    servers = "\n".join(f"        server 127.0.0.1:{port};" for port in place.upstreams)
    user = f"user {getpass.getuser()};" if os.getuid() == 0 else ""  # else it gives up being root, and cannot write here
    return _CONFIG.format(user=user, folder=place.folder, keys=keys, servers=servers, port=place.port)


def command(place: Place) -> list[str]:
    file = place.folder / "nginx.conf"
    file.write_text(config(place), encoding="utf-8")
    return [str(place.environment / PROGRAM), "-c", str(file), "-p", str(place.folder), "-e", "stderr"]


def version(environment: Path) -> str:
    try:
        told = subprocess.run(_ask(environment), check=True, capture_output=True, text=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return "-"
    return told.strip().rpartition("/")[2]


def _ask(environment: Path) -> Sequence[str]:
    return [str(environment / PROGRAM), "-v"]
