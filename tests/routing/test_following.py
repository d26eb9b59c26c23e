"""What a text in a conversation takes over from what was said before it, and what it does not: by both classifiers."""

import gzip
import json
from pathlib import Path

import pytest

from routing.following import goes_on, too_short
from routing.learned.classifier import Learned
from routing.learned.shipped import shipped
from routing.rules import Rules

DATA = Path(__file__).parents[3] / "shared" / "data" / "routing"
KINDS = pytest.mark.parametrize("classifier", [Rules(), Learned(shipped())], ids=["rules", "learned"])
EASY = ("What is the capital of Peru?", "Lima.")
HARD = (
    "Prove by induction that the algorithm terminates, derive its worst-case complexity, and find the race condition.",
    "Done, see above.",
)

# Nothing that either classifier knows much of, or words that only one of them knows; each is an ask of its own.
ASKS = [
    "Find the degree for the given field extension Q(sqrt(2), sqrt(3), sqrt(18)) over Q.",
    "Statement 1 | Every homomorphic image of a group G is isomorphic to a factor group of G. True or false for both?",
    "Implement a lock-free concurrent hash map in Rust with epoch-based reclamation, debug its races, prove it linearizable.",
    "Find all c such that the ring with three elements has it as a root, and say which one is the least",
    "Explain monads",
    "Explain Fermat's little theorem",
    "Ok. Find the degree of the extension that sqrt 2 makes over Q",
    "Now tell me how zymurgists pasteurise their grommets",
    "Which of these is Kant's view of that",
    "A wug is glimmed by three fnords; what becomes of it when the blorps are gone?",
    "No man is an island: whose words are these, and what did he mean by them?",
    "First order logic is semi-decidable",
    "Do electrons rest?",
    "All that glitters is not gold in zymurgy",
    "zxqv blorp wug fnord glim trx qwl",
    "Нужно найти хорошую книгу о старых кораблях",
    "ええと、これをお願いします、古い船についての本を探しています",
    "이 문장을 번역해 주세요 그리고 오래된 배에 관한 책을 찾아 주세요",
    "用窗口函数找出每个客户订阅历史中的空档",
    "为什么容器的上限低于堆的上限还会被杀掉",
    "Fix the typo: grommits are zymurgic.",
    "Turn it around: blorp wug fnord",
    "把5英里换算成公里。",
    "解释一下量子纠缠和它的用途",
    "第一次世界大战的起因和它的后果是什么",
    "加密货币如何监管", "先天性心脏病怎么治", "都江堰为什么不会淤积", "按揭提前还款划算吗", "照顾早产儿要注意哪些",
    "改造一个银行系统的核心", "修宪需要什么程序", "用什么办法可以让核聚变稳定", "换热器的效率怎么算",
    "第一性原理计算的局限是什么", "继续教育学分怎么算出来", "执行董事的职责有哪些方面",
    "提交专利需要准备哪些材料", "为什么铁会被磁铁吸住呢", "黄河有多长？", "哪个行星最大？", "列出五种动物",
    "Next, a lock-free skip list", "Remove a tumour near the optic nerve", "Change of basis in Hilbert spaces",
    "Update my kernel without a reboot, how?", "Run a marathon under three hours, how?", "Make a plan for zymurgy with grommets",
    "Add a lane to the bridge without closing traffic", "Option pricing under jumps in wugs",
    "The second law of zymurgic grommets", "Why is it dark at night?", "Is it true that wolves mourn?",
    "My house leaks when it rains heavily",
    "How does this universe end?", "How is it that magnets attract?", "What is this thing called love?",
    "Would it be safe to take wugs with blorps?", "Why do cats knead when they are glad?", "What time is it in Rome?",
]  # fmt: skip

FOLLOW_UPS = [
    "yes", "Yes, please.", "ok go ahead", "continue", "go on", "do it", "sounds good", "commit it", "try again", "2", "b)",
    "option B", "use the second one", "why?", "and the tests?", "make it shorter", "no, keep the old name", "push it",
    "lgtm, ship it", "now run the tests", "ok do it", "sounds good 👍", "in Rust", "Go instead", "why not Redis?",
    "yes, but keep the old name for now", "And what about the case n = 0?", "can you do that for the other one too?",
    "fix the failing test in parser.py", "the last one", "run it again", "no, the first one", "What about Windows?",
    "add a test for the parser", "please go on", "does it work on Windows?",
    "now with tests", "shorter, please", "do that for all of them", "yes, but keep the old name",
    "why does it diverge", "it crashes", "make it faster", "write a test for it", "how do I make it lock free",
    "ok now do the whole thing in assembler", "why is this so slow?", "use a generator instead", "commit and push",
    "再来一个", "改成异步的并且快一点", "按照上面说的做", "用中文再说一遍", "加上单元测试和注释", "再短一点",
    "哪个更好？", "那怎么办", "这个怎么弄", "先做第一个再说",
    "继续", "好的，继续", "可以", "改一下", "提交吧", "就这样做", "为什么？", "可以，执行吧", "嗯", "好的", "用第二个",
    "那测试呢？", "不对，改回来", "把它改成异步的", "はい", "да", "계속",
]  # fmt: skip


def verdict(classifier, *texts):
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    return classifier.classify({"messages": messages}, "chat")


@KINDS
@pytest.mark.parametrize("text", ASKS)
def test_an_ask_of_its_own_is_judged_by_itself_after_an_easy_turn(classifier, text):
    """What nobody can rate by itself nobody can rate after an easy turn, or several; and nothing else's words explain it."""
    alone = verdict(classifier, text)
    assert verdict(classifier, *EASY, text) == alone
    assert verdict(classifier, *EASY, *EASY, text) == alone


@KINDS
@pytest.mark.parametrize("text", FOLLOW_UPS)
def test_a_follow_up_is_as_hard_as_what_it_follows_up(classifier, text):
    """After hard work it is no easier than that, and after an easy turn it is not unknown."""
    hard = verdict(classifier, HARD[0])
    assert hard.score > classifier.middle
    assert verdict(classifier, *HARD, text).score >= hard.score
    assert verdict(classifier, *EASY, text).score is not None


@KINDS
@pytest.mark.parametrize("text", [*FOLLOW_UPS, "?", "??", "谢谢，继续", "hi, continue", "no, the other one"])
def test_what_follows_up_nothing_is_not_easy(classifier, text):
    """It means nothing alone, after small talk or what nobody can rate, and after an answer that proposes something easy."""
    unknown, offer = "zxqv blorp wug fnord glim trx qwl", "Hello! Shall I translate 'good morning' into French?"
    for before in ((), ("Hello!", "Hi."), ("Hello!", offer), ("谢谢", "Hi."), (unknown, "Done."), (unknown, offer)):
        score = verdict(classifier, *before, text).score
        assert score is None or score >= classifier.middle


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")
def test_examination_questions_are_hardly_ever_taken_for_follow_ups():
    """All of them are asks of their own: of MMLU's at most 2 in a hundred go on, or are too short, by their words."""
    with gzip.open(DATA / "routellm_mmlu.jsonl.gz", "rt", encoding="utf-8") as lines:
        prompts = [json.loads(line)["prompt"] for line in lines]
    asked = [prompt.split("\nA. ")[0] for prompt in prompts]
    assert sum(goes_on(text) or too_short(text) for text in asked) <= 0.02 * len(asked)
