"""What is made of public outcomes, on a checkout without them."""

import pytest

from bench import own_labels
from routing.learned import sources


@pytest.mark.parametrize("command", [own_labels.main, lambda asked: sources.main([*asked, str(asked[0]) + ".policy"])])
@pytest.mark.parametrize("there", [(), ("llmrouter", "mmlu_pro", "zeroeval_gsm")])
def test_without_the_public_data_it_is_one_line(command, there, tmp_path, capsys):
    """It names each file that is missing, and no other, and where it would come from; exit 2, and nothing is written."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in there:
        (folder / f"{name}.jsonl.gz").touch()
    assert command([str(folder)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "docs/learned.md" in told
    assert "routellm_mmlu.jsonl.gz" in told
    assert not any(name in told for name in there)
    assert list(tmp_path.iterdir()) == [folder]
