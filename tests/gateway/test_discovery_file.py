"""The watched file: what is believed, when, and what a bad one says."""

import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.secret import Secret
from gateway.config.yamltree import MAX_BYTES, TOO_LARGE
from gateway.discovery.file import File
from gateway.discovery.types import LookFailed

ONE = '- {name: a, url: "http://10.0.0.11:8000/v1"}\n'
TWO = ONE + '- {url: "http://10.0.0.12:8000/v1", api_key: own}\n'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replicas.yaml"


@pytest.fixture
def source(path):
    return File(path, Secret("shared"), None)


def put(path, text):
    """As a careful writer does: a new file, renamed into place."""
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    os.replace(fresh, path)


def overwrite(path, text, at):
    """As a careless one does, with a modification time of its own."""
    path.write_text(text)
    os.utime(path, ns=(at, at))


async def names(source):
    return [replica.name for replica in (await source.look()).replicas]


async def test_what_the_list_says(path, source):
    """A name is given or made; a key is its own or the config's."""
    put(path, TWO)
    found = (await source.look()).replicas
    assert [(one.name, one.url, one.api_key.reveal()) for one in found] == [
        ("a", "http://10.0.0.11:8000/v1", "shared"),
        ("10-0-0-12-8000", "http://10.0.0.12:8000/v1", "own"),
    ]


async def test_a_rename_is_noticed_at_once(path, source):
    """A file that takes the other's place is believed at the next look, of the same size and age or not."""
    put(path, ONE)
    os.utime(path, ns=(1, 1))
    assert await names(source) == ["a"]
    put(path, ONE.replace("name: a", "name: b"))
    os.utime(path, ns=(1, 1))
    assert await names(source) == ["b"]


async def test_one_that_is_being_written_waits(path, source):
    """Written in place, it is believed when it has stood still for a look; what was known before holds until then."""
    put(path, TWO)
    assert len(await names(source)) == 2
    overwrite(path, TWO[:60], 1_000)  # cut in the middle: no YAML
    assert len(await names(source)) == 2
    overwrite(path, ONE, 2_000)  # cut at the end of an entry: a list, but a shorter one
    assert len(await names(source)) == 2
    overwrite(path, TWO + ONE.replace("name: a", "name: c").replace(".11", ".13"), 3_000)
    assert len(await names(source)) == 2
    assert len(await names(source)) == 3


async def test_a_bad_file_says_the_line_and_heals(path, source):
    """The error is the config's own form, and a mended file is taken up."""
    put(path, ONE + "- {url: ftp://x/}\n- {urll: 1}\n")
    with pytest.raises(LookFailed, match=r"replicas\.yaml:2:9: replicas\[1\]\.url: expected a URL.*\(and 1 more\)"):
        await source.look()
    with pytest.raises(LookFailed, match=r":2:9:"):
        await source.look()
    put(path, ONE)
    assert await names(source) == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("replicas: []\n", "expected a list"),
        ("- 1\n", "expected keys and values"),
        ("- {}\n", 'missing key "url"'),
        ("- {url: 'http://u:p@h/'}\n", "must not hold credentials"),
        ("- {url: 'http://h/', name: 'a b'}\n", "expected a name"),
        ("- {url: 'http://${HOME}/'}\n", "HOME is not set"),
        ("- {url: 'http://h/', api_key: \"a\\nb\"}\n", "visible ASCII"),
        ("- &x {url: 'http://h/'}\n- *x\n", "two replicas are called h-80"),
        ("- {url: 'http://h/', events: 'tcp://h:1'}\n- {url: 'http://i/', events: 'tcp://h:1'}\n", "h-80 and i-80 both have"),
        ("- {url: 'http://h/', events: 'tcp://h:1', replay: 'tcp://h:1'}\n", "h-80 and h-80 both have"),
        ("- [" * 40, "nested more than|not valid YAML"),
        ("a" * (MAX_BYTES + 1), TOO_LARGE),
        ("- {url: 'http://h/'}\n" * 1025, "more than 1024 replicas"),
        ("\x00", "not allowed"),
        ("!!python/object:os.system x", "not supported"),
    ],
)
async def test_hostile_files_are_refused(path, source, text, message):
    """Each is a failed look with a reason of one line, and no value that came from the environment."""
    put(path, text)
    with pytest.raises(LookFailed, match=message) as failed:
        await source.look()
    assert "\n" not in str(failed.value)
    assert os.environ.get("HOME", "-") not in str(failed.value).replace(str(path), "")


@given(st.text(alphabet=st.sampled_from("-:{}[]&*!|>'\"#%@`,?\n ab1urlname") | st.characters(codec="utf-8"), max_size=200))
async def test_any_text_is_a_list_or_a_failure(tmp_path_factory, text):
    """Whatever is in the file, a look ends in replicas or in LookFailed."""
    path = tmp_path_factory.mktemp("any") / "replicas.yaml"
    path.write_text(text, encoding="utf-8")
    with contextlib.suppress(LookFailed):
        assert all(one.url for one in (await File(path, Secret(), None).look()).replicas)


async def test_not_text(path, source):
    """Bytes that are no UTF-8."""
    path.write_bytes(b"- \xff\xfe")
    with pytest.raises(LookFailed, match="not UTF-8"):
        await source.look()


async def test_an_empty_list_is_believed(path, source):
    """Somebody wrote it."""
    put(path, "[]\n")
    assert await names(source) == []


async def test_gone_and_back(path, source):
    """No file is a failure, and the same file, back again, is read again."""
    with pytest.raises(LookFailed, match="cannot be read: No such file"):
        await source.look()
    put(path, ONE)
    assert await names(source) == ["a"]
    path.unlink()
    with pytest.raises(LookFailed, match="No such file"):
        await source.look()
    put(path, ONE)
    assert await names(source) == ["a"]


async def test_what_is_no_file(path, source):
    """A pipe would hang the reader, a directory has nothing to say."""
    os.mkfifo(path)
    with pytest.raises(LookFailed, match="no regular file"):
        await source.look()
    path.unlink()
    path.mkdir()
    with pytest.raises(LookFailed, match="no regular file"):
        await source.look()


async def test_an_unchanged_file_is_not_read_again(path, source, monkeypatch):
    """A look at an unchanged file costs a stat."""
    put(path, ONE)
    await source.look()
    monkeypatch.setattr("gateway.discovery.file._text", lambda *_: pytest.fail("it was read"))
    assert await names(source) == ["a"]
