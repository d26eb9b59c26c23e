import re
from pathlib import Path

import pytest
import yaml

from gateway.config import load, parse
from gateway.lab.fake.script import Script
from gateway.lab.reference import pages
from gateway.logline import LogLine

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("name", ["config.md", "metrics.md"])
def test_reference_pages_are_what_the_code_says(name):
    """docs/config.md and docs/metrics.md list every key and every metric, with nothing that is not there."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == pages()[name], "run: python -m gateway.lab.reference docs"


def test_every_header_of_ours_is_in_the_readme():
    """A header that the gateway writes or reads is explained in the README."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "gateway").glob("*.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = set(re.findall(r"x-(?:tiergate-[a-z-]*[a-z]|should-retry|request-id)", code))
    groups = {name for line in re.findall(r"`x-ratelimit-\{[^`]*`", readme) for name in [line]}
    assert found
    assert groups
    assert {name for name in found if name not in readme} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    """A relative link names a file of the repository, and a heading that is in it."""
    found = []
    for target, heading in links(page):
        if not target.exists():
            found.append(str(target))
        elif heading and heading not in headings(target):
            found.append(f"{target.name}#{heading}")
    assert found == []


def test_every_page_is_found_from_the_readme():
    """Who follows links from the README on comes to each page of docs."""
    reached, ahead = {ROOT / "README.md"}, [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        new = {target for target, _ in links(str(page.relative_to(ROOT))) if target.suffix == ".md"} - reached
        reached |= new
        ahead += new
    assert set((ROOT / "docs").glob("*.md")) - reached == set()


def links(page: str) -> list[tuple[Path, str]]:
    """The file and the heading of each relative link."""
    path = ROOT / page
    found = _LINK.findall(path.read_text(encoding="utf-8"))
    return [((path.parent / target).resolve() if target else path, heading) for target, heading in found]


def headings(path: Path) -> set[str]:
    """As GitHub names them."""
    named = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in named}


def test_the_example_config_is_valid():
    """config.yaml is accepted as it stands, with an empty environment, and so uses only what is built."""
    config = load(ROOT / "config.yaml", {})
    assert {model.tier for model in config.models} == {"small", "large"}


def test_the_config_in_the_readme_is_valid(tmp_path, monkeypatch):
    """The YAML that a newcomer copies from the README is accepted, where the extras that it names are installed."""
    (tmp_path / "litellm").mkdir()
    (tmp_path / "litellm" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        (tmp_path / "config.yaml").write_text(block, encoding="utf-8")
        assert load(tmp_path / "config.yaml", {}).models


@pytest.mark.parametrize("name", ["tenants.md", "routing.md", "cascade.md", "learning.md"])
def test_the_configs_for_operators_are_valid(name):
    """Each YAML of these pages is accepted, with a model where it names none; those of Prometheus are its own."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    model = "models: [{name: m, replicas: [{name: r, url: 'http://127.0.0.1:1/v1'}]}]\n"
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if not block.startswith("groups:")]
    assert blocks
    for block in blocks:
        assert parse(block if "models:" in block else model + block, "config.yaml", {}).models


def test_the_script_for_the_look_alike_is_valid():
    """The replies of docs/fake-vllm.md are taken, each field that they have is one of a reply."""
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "fake-vllm.md").read_text(encoding="utf-8"), re.DOTALL)
    script = Script.of(yaml.safe_load(block))
    assert [line.content for line in script.find("the weather in Paris") or ()] == ["Sunny."]
    assert len(script.find("anything") or ()) == 2


def test_every_field_and_code_is_in_the_log_page():
    """docs/log.md names every field of the log line and every code that an error of ours can have."""
    page = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", page))
    fields = {*LogLine.__struct_fields__, "worker", "log_lines_dropped"}
    product = [path for path in (ROOT / "gateway").rglob("*.py") if "lab" not in path.parts]
    code = "".join(path.read_text(encoding="utf-8") for path in product)
    codes = set(re.findall(r'(?:ApiError|__init__)\(\s*\d+(?: if \w+ else \d+)?,\s*"([a-z_]+)"', code)) | set(
        re.findall(r'_refused\("([a-z_]+)"', code)
    )
    assert len(fields) > 20
    assert len(codes) > 20
    assert "dispatcher_away" in codes
    assert (fields | codes) - named == set()


def test_the_drawing_of_the_processes_names_every_part():
    """docs/architecture.md has a line for each module of gateway/dispatch and gateway/node, and names none that is gone."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (\[.*?) \| ", page, re.MULTILINE)
    listed = {target for cell in cells for target in re.findall(r"\]\(\.\./gateway/([^)]+\.py)\)", cell)}
    there = {
        str(path.relative_to(ROOT / "gateway"))
        for room in ("dispatch", "node")
        for path in (ROOT / "gateway" / room).glob("*.py")
        if path.name != "__init__.py"
    }
    assert there
    assert {module for module in listed if "/" in module} == there
