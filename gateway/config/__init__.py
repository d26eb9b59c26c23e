"""The config: strict, frozen, and read whole before anything starts.

`load` and `parse` give a complete, checked `Config`, or raise a `ConfigError` with everything that is wrong. They open
no socket, log nothing, and change nothing; the environment is an argument. `load` and `examine` also try the certificates
that the config names, read the prompts that replicas read ahead, and look into the folders of models; no other file is
opened. `examine` is for those who go on after an error: it gives what could be read, and where each value stands.

    problems   what is wrong, and where
    yamltree   text → nodes with positions
    kinds      the values a key may have; `secret` those that hide; `types` the shared ones
    fields     how a key is declared
    schema     the tree: every key, its default and its doc
    reader     nodes + schema → values
    checks     what keys cannot say alone; `fleet_checks` those of discovery and TLS, `certificates` their files;
               `folder_checks` the folders of models; `reserved_checks` what tenants have for themselves;
               `routing_checks` routes and targets; `learning_checks` learning on own traffic;
               `warm_checks` what replicas read ahead, `prompt_files` its files
    doubts     what is allowed, and hardly meant
    show       back to text, secrets hidden
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.config.burst_checks import check_bursts
from gateway.config.checks import Report, check
from gateway.config.fleet_checks import check_fleet
from gateway.config.folder_checks import check_folders
from gateway.config.learning_checks import check_learning
from gateway.config.problems import ConfigError, Problem, Problems, render_path
from gateway.config.problems import Path as KeyPath
from gateway.config.reader import Reader
from gateway.config.reserved_checks import check_reserved
from gateway.config.routing_checks import check_routes
from gateway.config.schema import Config, Model, Plan, Replica, Tenant, TenantKey, Timeouts, complete
from gateway.config.secret import Secret
from gateway.config.show import effective, plain, reference
from gateway.config.warm_checks import check_warm
from gateway.config.yamltree import MAX_BYTES, TOO_LARGE, compose

__all__ = [
    "Config",
    "ConfigError",
    "Model",
    "Plan",
    "Problem",
    "Reading",
    "Replica",
    "Secret",
    "Tenant",
    "TenantKey",
    "Timeouts",
    "effective",
    "examine",
    "load",
    "parse",
    "plain",
    "reference",
]


def load(path: str | Path, env: Mapping[str, str] = os.environ) -> Config:
    """The config in the file at `path`."""
    return _parsed(_read(path), path, env, files=True)


def parse(text: str, path: str | Path = "config.yaml", env: Mapping[str, str] = os.environ) -> Config:
    """The config in `text`; `path` names it in errors, and relative paths in it start from its directory."""
    return _parsed(text, path, env, files=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """A config as far as it could be read: what could not has its default or a zero, and a Problem that says so."""

    config: Config
    errors: tuple[Problem, ...]
    _reader: Reader

    def line(self, path: KeyPath) -> int:
        """Where the value at `path` stands; one that was left out stands where its section does."""
        return self._reader.mark(path).line

    def broken(self, path: KeyPath) -> bool:
        """Whether an error was found at this very key."""
        return any(problem.path == render_path(path) for problem in self.errors)


def examine(path: str | Path, env: Mapping[str, str] = os.environ) -> Reading:
    """The config in the file at `path`, with its errors. ConfigError only when there is nothing to look at."""
    config, reader, problems = _interpret(_read(path), path, env, files=True)
    return Reading(config, tuple(sorted(problems.found)), reader)


def _parsed(text: str, path: str | Path, env: Mapping[str, str], *, files: bool) -> Config:
    config, _, problems = _interpret(text, path, env, files=files)
    problems.raise_if_any()
    return config


def _interpret(text: str, path: str | Path, env: Mapping[str, str], *, files: bool) -> tuple[Config, Reader, Problems]:
    problems = Problems(str(path))
    node = compose(text.removeprefix("\ufeff"), problems)
    if node is None:
        problems.raise_if_any()
    reader = Reader(env, problems)
    config = reader.root(Config, node)
    assert isinstance(config, Config)
    config = complete(config, Path(path).absolute().parent)
    report = Report(reader, problems)
    check(config, report)
    check_fleet(config, report, files=files)
    check_reserved(config, report)
    check_bursts(config, report)
    check_learning(config, report)
    check_routes(config, report)
    check_warm(config, report, files=files)
    if files:
        check_folders(config, report)
    return config, reader, problems


def _read(path: str | Path) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise ConfigError([Problem(0, 0, "", f"cannot be read: {reason}", str(path))]) from None
    if len(data) > MAX_BYTES:
        raise ConfigError([Problem(0, 0, "", TOO_LARGE, str(path))])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem(line, 1, "", "not UTF-8 text", str(path))]) from None
