"""`tiergate cache eval` as a program: what it prints, writes and says, over an embedder without weights."""

import json
import sys

import pytest
import tiny_onnx
from eval_words import opened

from gateway.cli import main
from gateway.config import load
from gateway.lab.cacheeval import command, plots

PAIRS = [
    {"a": "how do I lock my card", "b": "how do I lock my bank card", "same_answer": True, "category": "paraphrase"},
    {"a": "how do I lock my card", "b": "please how do I lock my card", "same_answer": True, "category": "paraphrase"},
    {"a": "where is order 12 of mine", "b": "where is order 13 of mine", "same_answer": False, "category": "number"},
    {"a": "is it open", "b": "is it open", "same_answer": True, "ambiguous": "when?"},
]


@pytest.fixture(autouse=True)
def words(monkeypatch):
    monkeypatch.setattr(command, "open_embedder", lambda _: opened())


@pytest.fixture
def pairs(tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    return file


@pytest.fixture
def tiergate(capsys):
    def run(*arguments):
        code = main(["cache", "eval", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def document(tiergate, *arguments):
    code, out, err = tiergate(*arguments, "--json")
    assert code == 0, err
    return json.loads(out, parse_constant=pytest.fail)


def test_scores(tiergate, pairs):
    """Counts, intervals and categories of every policy, with the digest of the data and the fingerprint of the embedder."""
    told = document(tiergate, pairs, "--threshold", "0.8")
    (data,) = told["data"]
    (file,) = data.pop("files")
    name = f"{pairs.parent.name}/pairs.jsonl"
    assert data == {"name": name, "kind": "pairs", "pairs": 3, "wanted": 2, "traps": 1, "left_out": 1}
    assert (len(file["sha256"]), file["size"]) == (64, pairs.stat().st_size)
    assert told["embedders"][0]["fingerprint"] == "words-1"
    assert told["embedders"][0]["cost"]["embedding"]["count"] == 3
    scores = {it["policy"]: it for it in told["results"][0]["scores"]}
    assert list(scores) == ["strict", "balanced", "cosine >= 0.8", "cosine >= 0.8, guards"]
    bare, guarded = scores["cosine >= 0.8"], scores["cosine >= 0.8, guards"]
    assert (bare["served"]["hits"], bare["traps_served"]["hits"]) == (2, 1)
    assert (guarded["served"]["hits"], guarded["traps_served"]["hits"]) == (2, 0)
    assert bare["categories"]["number"]["traps_served"] == bare["traps_served"]
    assert bare["examples"][0]["asked"] == PAIRS[2]["b"]
    assert sum(guarded["traps_refused_by"].values()) == 1
    assert [it["name"] for it in told["results"][0]["curves"]] == [
        "cosine", "cosine + guards", "strict, other cuts", "balanced, other cuts"
    ]  # fmt: skip


def test_the_table_says_the_same(tiergate, pairs):
    """Each policy in a line, shares with their intervals and counts; nothing on standard error but what is being done."""
    code, out, err = tiergate(pairs, "--threshold", "0.8", "--no-guards", "--preset", "strict")
    assert code == 0
    assert "3 pairs, 2 wanted and 1 traps, 1 left out (ambiguous, or no sentence)" in out
    assert "cosine >= 0.8  100.0% (34.2%-100.0%) 2/2  100.0% (20.7%-100.0%) 1/1  66.7% (20.8%-93.9%) 2/3" in out
    assert "balanced" not in out
    assert "cosine >= 0.8, guards" not in out
    assert err.splitlines() == [f"tiergate cache eval: {pairs.parent.name}/pairs.jsonl: embedding with words: 5"]


def test_a_judge(tiergate, pairs):
    """A scripted verifier that knows everything serves all that it may be asked about, and no trap."""
    told = document(tiergate, pairs, "--judge", "1/0", "--judge-asks", "all", "--grey", "-1", "--preset", "strict")
    (score,) = told["results"][0]["scores"]
    assert (score["served"]["hits"], score["traps_served"]["hits"], score["judge_asked"]) == (2, 0, 3)


@pytest.mark.parametrize(("logit", "served", "wrong"), [(4.0, 2, 1), (-4.0, 0, 0)])
def test_a_cross_encoder(tiergate, pairs, tmp_path, logit, served, wrong):
    """What the folder's model says decides on what it is asked about; what it costs is told."""
    folder = tiny_onnx.steady(tmp_path / "cross", logit)
    arguments = ("--verifier", folder, "--judge-asks", "all", "--grey", "-1", "--preset", "strict")
    told = document(tiergate, pairs, *arguments)
    (score,) = told["results"][0]["scores"]
    assert (score["served"]["hits"], score["traps_served"]["hits"], score["judge_asked"]) == (served, wrong, 3)
    assert told["embedders"][0]["cost"]["verification"]["count"] == 3
    assert told["parameters"]["verifier"] == str(folder)
    assert "one verification" in tiergate(pairs, *arguments)[1]
    strict = document(tiergate, pairs, *arguments, "--verifier-threshold", "0.99")["results"][0]["scores"][0]
    assert strict["served"]["hits"] == 0


def test_a_cross_encoder_in_a_stream(tiergate, pairs, tmp_path):
    """The stream asks it as the product does."""
    folder = tiny_onnx.steady(tmp_path / "cross", 4.0)
    told = document(tiergate, pairs, "--stream", "100", "--preset", "strict", "--verifier", folder)
    (course,) = told["results"][0]["courses"]
    assert course["judge_asked"] > 0


def test_questions_that_are_never_looked_up(tiergate, tmp_path):
    """Presets and guards refuse them by name; a bare cosine does not, and with --all-eligible the decision alone counts."""
    file = tmp_path / "today.jsonl"
    file.write_text(json.dumps({"a": "what is on sale today", "b": "please what is on sale today", "same_answer": True}))
    arguments = (file, "--preset", "strict", "--threshold", "0.5")
    strict, bare, guarded = document(tiergate, *arguments)["results"][0]["scores"]
    assert strict["refused_by"] == guarded["refused_by"] == {"time": 1}
    assert bare["served"]["hits"] == 1
    assert [score["served"]["hits"] for score in document(tiergate, *arguments, "--all-eligible")["results"][0]["scores"]] == [
        1
    ] * 3


def test_lookups(tiergate, tmp_path):
    """Hits, right and wrong ones, of a table of origins and similar questions."""
    file = tmp_path / "mock.json"
    file.write_text(json.dumps([{"origin": "red fox runs", "similar": "red fox"}, {"origin": "red fox", "similar": "blue cat"}]))
    code, out, _ = tiergate(file, "--threshold", "0.7", "--no-guards")
    assert code == 0
    assert "2 lookups" in out
    assert "cosine >= 0.7  50.0% (9.5%-90.5%) 1/2  0.0% (0.0%-65.8%) 0/2  50.0% (9.5%-90.5%) 1/2" in out


def test_a_stream(tiergate, pairs):
    """Hits over the exact tier, the ceiling, and how the figures go on after what shadow verifications taught."""
    arguments = (pairs, "--stream", "100", "--shadow", "1", "--shadow-share", "0.5", "--preset", "balanced", "--threshold", "0.8")
    told = document(tiergate, *arguments)
    (part,) = told["results"]
    assert part["clusters"] == {"used": 1, "alone": 2, "conflicts": 0}
    assert part["asks"]["ceiling"]["hits"] == 99
    assert part["asks"]["exact_alone"]["hits"] == 97
    assert [it["policy"] for it in part["courses"]] == [
        "balanced", "cosine >= 0.8", "cosine >= 0.8, guards", "balanced, learning"
    ]  # fmt: skip
    for course in part["courses"]:
        assert course["hits"]["hits"] == sum(course[end]["hits"] for end in ("exact", "semantic", "wrong"))
        assert (course["asks"], course["wrong"]["hits"]) == (100, 0)
    learning = part["courses"][-1]
    assert learning["shadow_verified"] == 1
    assert learning["after_learning"]["asks"] == learning["without_learning"]["asks"] == 100 - learning["after_learning"]["from"]
    _, out, _ = tiergate(*arguments)
    assert "100 questions of 1 clusters" in out
    assert "  without learning" in out
    assert document(tiergate, *arguments)["results"] == told["results"]


def name(number):
    """A word that no other number has."""
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:03}") + "card"


@pytest.fixture
def many(tmp_path):
    file = tmp_path / "many.jsonl"
    rows = [
        {"a": f"how do I lock card number{i}", "b": f"please how do I lock card number{i}", "same_answer": True}
        for i in range(100)
    ]
    rows += [{"a": f"open the {name(i)} door", "b": f"buy an old house in {name(i)}", "same_answer": False} for i in range(100)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_calibration(tiergate, many):
    """A cut from one half with its figures on the other, and the lines that a config takes."""
    told = document(tiergate, many, "--calibrate", "--max-error", "0.1")
    (part,) = told["results"]
    assert [it["preset"] for it in part["calibrations"]] == ["strict", "balanced"]
    for it in part["calibrations"]:
        assert it["chosen_on"] + it["told_on"] == 200
        for figures in (it["told"], it["own"]["told"]):
            assert figures["traps_served"]["hits"] == 0
            assert figures["served"]["share"] > 0.9
    assert part["fingerprint"] == "words-1"


def test_the_config_lines_are_taken(tiergate, many, tmp_path):
    """What is printed can be pasted as it is: of an embedder that was never measured, the cut that was found."""
    told = document(tiergate, many, "--calibrate", "--max-error", "0.1")["results"][0]
    _, out, _ = tiergate(many, "--calibrate", "--max-error", "0.1")
    pasted = out[out.index("cache:") :].partition("\n\n")[0]
    assert "preset:" in pasted
    models = "models: [{name: m, context: 1000, replicas: [{name: r, url: 'http://127.0.0.1:1/v1'}]}]\n"
    (tmp_path / "config.yaml").write_text(models + pasted)
    semantic = load(tmp_path / "config.yaml", {}).cache.semantic
    assert semantic.max_error == 0.1
    assert (semantic.preset, semantic.cut) in [(it["preset"], it["cut"]) for it in told["calibrations"]]


def test_too_little_evidence_is_said(tiergate, pairs):
    """How much a bound takes, and no cut."""
    _, out, _ = tiergate(pairs, "--calibrate")
    assert "189 served pairs without an error show it" in out
    assert "no cut shows it on" in out
    assert "preset: strict  # no preset's own cut is shown to hold the bound here" in out


def test_a_picture(tiergate, pairs, tmp_path):
    """Of curves, categories and streams; even where nothing is served at all."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `plots`)")
    conversations = tmp_path / "conv.jsonl"
    message = {"role": "user", "content": "yes"}
    conversations.write_text(json.dumps({"a": [message, message], "b": [message], "same_answer": False}))
    for number, arguments in enumerate(([pairs, conversations], [pairs, "--stream", "20"], [pairs, "--calibrate"])):
        picture = tmp_path / f"{number}.png"
        code, _, err = tiergate(*arguments, "--png", picture)
        assert code == 0
        assert f"wrote {picture}" in err
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_figures_are_printed(tiergate, pairs, tmp_path, monkeypatch):
    """And one line says how to get the picture."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = tiergate(pairs, "--png", tmp_path / "x.png")
    assert (code, bool(out)) == (0, True)
    assert plots.MISSING in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl: No such file or directory"),
        (["{pairs}", "--judge", "9"], "'9' is no judge"),
        (["{pairs}", "--shadow", "5"], "--shadow needs --stream"),
        (["{pairs}", "--stream", "5", "--calibrate"], "one at a time"),
        (["{pairs}", "--stream", "5", "--all-eligible"], "--all-eligible is for pairs"),
        (["{pairs}", "--stream", "5", "--judge-asks", "all"], "--grey and --judge-asks are for pairs"),
        (["{pairs}", "--png", "nowhere/x.png"], "nowhere/x.png cannot be written"),
        (["{traps}", "--stream", "5"], "no right pairs"),
        (["{mock}", "--calibrate"], "has no traps"),
        (["{pairs}", "--verifier", "{traps}"], "traps is no verifier's folder"),
        (["{pairs}", "--verifier", "{broken}"], "broken does not load"),
        (["{pairs}", "--verifier", "{broken}", "--judge", "1/0"], "--judge or --verifier"),
        (["{pairs}", "--verifier-threshold", "0.5"], "--verifier-threshold needs --verifier"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tiergate, pairs, tmp_path, arguments, message):
    """No traceback, and nothing on standard output."""
    (tmp_path / "traps").write_text("a\tb\t0\n")
    (tmp_path / "mock").write_text('{"origin": "a", "similar": "b"}\n')
    (tiny_onnx.steady(tmp_path / "broken", 1.0) / "model.onnx").write_bytes(b"no model")
    places = {"broken": tmp_path / "broken", "pairs": pairs, "traps": tmp_path / "traps", "mock": tmp_path / "mock"}
    code, out, err = tiergate(*(argument.format_map(places) for argument in arguments))
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("tiergate cache eval: ")
    assert message in last


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stream", "0"], "a whole number from 1"),
        (["--stream", "²"], "a whole number from 1"),
        (["--zipf", "-1"], "an exponent from 0 to 10"),
        (["--threshold", "nan"], "a number from -1 to 1"),
        (["--max-error", "0"], "a share above 0"),
        (["--preset", "loose"], "invalid choice"),
    ],
)
def test_numbers_are_checked(pairs, capsys, arguments, message):
    """By the command line, with exit code 2."""
    with pytest.raises(SystemExit) as left:
        main(["cache", "eval", str(pairs), *arguments])
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_without_its_packages_the_command_says_what_to_install(pairs, capsys, monkeypatch):
    """The other actions of `tiergate cache` do not need them."""
    for name in [name for name in sys.modules if name.startswith("gateway.lab.cacheeval.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(["cache", "eval", str(pairs)]) == 2
    assert capsys.readouterr().err == "tiergate cache eval: it needs numpy: pip install 'tiergate[semantic]'\n"
