"""What a reload finds in the config's file."""

from gateway.config import load
from gateway.node.start import Configs
from gateway.node.supervisor import Reread

TEXT = """
server: {port: 8123, workers: 2}
models: [{name: m, tier: small, replicas: [{name: r, url: "http://127.0.0.1:9/v1"}]}]
"""


def configs(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    return path, Configs(load(path), lambda: load(path))


def test_what_was_not_changed_is_the_same(tmp_path):
    """Comments and order are no change."""
    path, found = configs(tmp_path)
    path.write_text("# a comment" + TEXT)
    assert found.reread() is Reread.SAME


def test_a_change_can_be_undone(tmp_path):
    """The config of before comes back, whole."""
    path, found = configs(tmp_path)
    before = found.config
    path.write_text(TEXT + "routing: {auto: any}")
    assert found.reread() is Reread.CHANGED
    assert found.config.routing.auto == "any"
    found.revert()
    assert found.config == before


def test_a_mistake_is_told_and_refused(tmp_path, caplog):
    """As `check` tells it; the config in use stays."""
    path, found = configs(tmp_path)
    before = found.config
    path.write_text(TEXT.replace("models", "modles"))
    assert found.reread() is Reread.REFUSED
    assert found.config is before
    assert "modles" in caplog.text


def test_where_it_listens_stays_until_a_restart(tmp_path, caplog):
    """The sockets are there, and so is their number: the rest of a change is taken all the same."""
    path, found = configs(tmp_path)
    path.write_text(TEXT.replace("8123", "8124").replace("workers: 2", "workers: 3, max_body: 1MiB"))
    assert found.reread() is Reread.CHANGED
    assert (found.config.server.port, found.config.server.workers, found.config.server.max_body) == (8123, 2, 1048576)
    assert "until a restart" in caplog.text


def test_what_is_gone_back_to_has_been_proven(tmp_path):
    """Two changes in a row, and only the last one is known to serve: or neither, and the first of all is kept."""
    path, found = configs(tmp_path)
    before = found.config
    for name in ("one", "two"):
        path.write_text(TEXT + f"routing: {{auto: {name}}}")
        assert found.reread() is Reread.CHANGED
    found.revert()
    assert found.config == before
    path.write_text(TEXT + "routing: {auto: three}")
    assert found.reread() is Reread.CHANGED
    found.prove()
    found.revert()
    assert found.config.routing.auto == "three"


def test_a_key_file_that_is_none_is_refused(tmp_path, caplog):
    """No process could start with it, so none is replaced."""
    path, found = configs(tmp_path)
    (tmp_path / "no-keys.json").write_text("nonsense")
    path.write_text(TEXT + "keys: {path: no-keys.json}")
    assert found.reread() is Reread.REFUSED
    assert "no-keys.json" in caplog.text
