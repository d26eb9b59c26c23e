"""The config of what replicas read ahead, and its files."""

import os

import pytest

from gateway.config import ConfigError, load
from gateway.config.prompt_files import read_text, read_tools

HEAD = """
models:
  - name: m
    replicas: [{name: a, url: "http://10.0.0.1:8000/v1"}]
    adapters: [{name: helper}]
"""


def loaded(tmp_path, warm, more=""):
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}    warm: {warm}\n{more}")
    return load(path, {})


def test_paths_start_from_the_config(tmp_path):
    """As everywhere else."""
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "t.json").write_text('[{"type": "function"}]')
    (prompt,) = loaded(tmp_path, "{prompts: [{file: ./a.txt, tools: t.json}]}").models[0].warm.prompts
    assert read_text(prompt.file) == "hello\n"
    assert read_tools(prompt.tools) == [{"type": "function"}]


@pytest.mark.parametrize(
    ("warm", "more", "complaint"),
    [
        ("{prompts: [{adapter: helper}]}", "", "nothing to read"),
        ("{prompts: [{system: hi, file: ./a.txt}]}", "", "one of both"),
        ("{prompts: [{system: hi, adapter: other}]}", "", "unknown adapter"),
        ("{prompts: [{system: hi, tenants: [other]}]}", "tenants: [{name: acme}]", "unknown tenant"),
        ("{prompts: [{system: hi}]}", "cache: {prefix: {isolate: tenant}}", 'missing key "tenants"'),
        ("{prompts: [{system: hi}]}\n    endpoints: [embeddings]", "", "needs the endpoint chat"),
        ('{prompts: [{system: "   "}]}', "", "warm.prompts[0].system: nothing but blanks"),
        ("{learn: 65}", "", "64"),
        ("{prompts: [{file: ./none.txt}]}", "", "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, warm, more, complaint):
    """At its place, before anything starts."""
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(ConfigError, match="warm") as caught:
        loaded(tmp_path, warm, more)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty"),
        (b" \n\t", "blanks"),
        (b"\xff\xfe", "UTF-8"),
        (b"x" * (256 * 1024 + 1), "larger"),
    ],
)
def test_hostile_text_files(tmp_path, content, complaint):
    """A complaint that shows nothing of what is in it."""
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        read_text(path)


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"[]",
        b"[1]",
        b"not JSON",
        b"[" * 100_000,
        b'[{"a":' + b"[" * 100 + b"]" * 100 + b"}]",
        b'[{"a": "\xff"}]',
        b'["secret"]',
    ],
)
def test_hostile_tools(tmp_path, content):
    """Only a list of objects passes, and not one that is nested too deep."""
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is n") as caught:
        read_tools(path)
    assert "secret" not in str(caught.value)


def test_what_is_no_file_does_not_hang(tmp_path):
    """A pipe, a directory, a device, a name with a NUL, a circle of links."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero", tmp_path / "loop", tmp_path / "\0"):
        with pytest.raises(ValueError, match=r"is no file|cannot be read"):
            read_text(path)
