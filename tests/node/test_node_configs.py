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
