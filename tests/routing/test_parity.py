import pytest

from routing.rules import Rules

RULES = Rules()

# The same ask in English and in Chinese, and the side that both are on.
PAIRS = [
    ("easy", "hello", "你好"),
    ("easy", "Good morning!", "早上好！"),
    ("easy", "thanks a lot", "谢谢你"),
    ("easy", "What is the capital of Japan?", "日本的首都是哪里？"),
    ("easy", "Who wrote Dream of the Red Chamber?", "红楼梦是谁写的？"),
    ("easy", "When was the Great Wall built?", "长城是什么时候建的？"),
    ("easy", "How tall is Mount Tai?", "泰山有多高？"),
    ("easy", "Where is the Louvre?", "卢浮宫在哪里？"),
    ("easy", "What does GDP stand for?", "GDP是什么意思？"),
    ("easy", "17 * 23 = ?", "17 * 23 等于多少？"),
    ("easy", "calculate 12 + 30", "计算 12 + 30"),
    ("easy", "Translate to French: I like apples.", "翻译成法语：我喜欢苹果。"),
    ("easy", "Summarize the following text: the cat slept all day.", "总结下面这段话：猫睡了一整天。"),
    ("easy", "Extract the names: Tom met Ann.", "提取人名：小明遇到了小红。"),
    ("easy", "Classify this review as positive or negative: I loved it.", "把这条评论分类为正面或负面：我很喜欢。"),
    ("easy", "Fix the typos: I liek it.", "改正错别字：我喜换它。"),
    ("easy", "Rewrite this sentence politely: give me the book.", "请改写这句话，礼貌一点：把书给我。"),
    ("easy", "Write a poem about spring", "写一首关于春天的诗"),
    ("easy", "Tell me a joke", "讲个笑话"),
    ("easy", "Write a birthday greeting for grandma", "给奶奶写一段生日祝福"),
    ("hard", "Prove that the square root of 2 is irrational.", "证明根号2是无理数。"),
    ("hard", "Prove by induction that the sum of the first n odd numbers is n^2.", "用归纳法证明前n个奇数之和等于n^2。"),
    ("hard", "Derive the formula for the period of a pendulum.", "推导单摆周期的公式。"),
    ("hard", "Design a distributed cache and analyse the trade-offs.", "设计一个分布式缓存，并分析其中的权衡。"),
    ("hard", "Compare these two architectures and evaluate their cost.", "比较这两种架构，并评估它们的成本。"),
    ("hard", "Refactor this module and optimise its performance.", "重构这个模块并优化性能。"),
    ("hard", "Debug this deadlock and find the root cause.", "调试这个死锁并找出根因。"),
    ("hard", "Think carefully and solve it step by step.", "请仔细思考，一步一步解答。"),
    ("hard", "Write a Python function that merges two sorted arrays.", "写一个Python函数，合并两个有序数组。"),
    ("hard", "Implement an LRU cache and analyse its time complexity.", "实现一个LRU缓存并分析其时间复杂度。"),
    (
        "hard",
        "The plaintiff sues the defendant in tort; who bears the burden of proof?",
        "原告以侵权起诉被告，举证责任由谁承担？",
    ),
    (
        "hard",
        "Give the differential diagnosis for a patient with acute chest pain and dyspnea.",
        "给出一位急性胸痛、高血压患者的鉴别诊断。",
    ),
    ("hard", "Explain how arbitrage keeps the valuation of derivatives consistent.", "解释套利如何使衍生品的估值保持一致。"),
    ("hard", "Find the eigenvalues of the matrix and its determinant.", "求这个矩阵的特征值和行列式。"),
    (
        "hard",
        "A shop sells 3 pens for 6 yuan and 5 books for 40 yuan. How many yuan do 7 pens and 2 books cost in total?",
        "商店里3支笔卖6元，5本书卖40元。买7支笔和2本书一共需要多少元？请写出解题过程。",
    ),
    ("unsure", "banana", "香蕉"),
    ("unsure", "I went for a walk in the park yesterday and it was nice", "我昨天去公园散步了，天气不错"),
    ("unsure", "yes", "好的吧"),
]

TRADITIONAL = [
    ("证明根号2是无理数。", "證明根號2是無理數。"),
    ("设计一个分布式缓存。", "設計一個分散式快取。"),
    ("重构这个模块并优化性能。", "重構這個模組並優化效能。"),
    ("翻译成法语：我喜欢苹果。", "翻譯成法語：我喜歡蘋果。"),
    ("红楼梦是谁写的？", "紅樓夢是誰寫的？"),
    ("原告以侵权起诉被告。", "原告以侵權起訴被告。"),
    ("谢谢", "謝謝"),
]


def side(*texts):
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    score = RULES.classify({"messages": messages}, "chat").score
    return "unsure" if score is None else "hard" if score >= 0.5 else "easy"


def test_the_table_is_large_enough():
    """At least thirty asks are compared, on every side."""
    assert len(PAIRS) >= 30
    assert {expected for expected, _, _ in PAIRS} == {"easy", "hard", "unsure"}


@pytest.mark.parametrize(("expected", "english", "chinese"), PAIRS)
def test_the_same_ask_is_on_the_same_side_in_both_languages(expected, english, chinese):
    """English and Chinese asks of the same meaning are judged alike."""
    assert (side(english), side(chinese)) == (expected, expected)


@pytest.mark.parametrize(("simplified", "traditional"), TRADITIONAL)
def test_traditional_characters_are_read_too(simplified, traditional):
    """An ask in traditional characters is on the side of the simplified one."""
    assert side(traditional) == side(simplified) != "unsure"


@pytest.mark.parametrize(
    ("english", "chinese"), [("yes", "好"), ("continue", "继续"), ("commit it", "提交"), ("change it a bit", "改一下")]
)
def test_follow_ups_inherit_in_both_languages(english, chinese):
    """A short answer to a plan is as hard as the plan in either language."""
    plan = "1. 重构会话存储\n2. 设计加锁协议并分析死锁\n3. 迁移旧数据"
    assert side("能改进登录吗？", plan, english) == side("能改进登录吗？", plan, chinese) == "hard"


def test_languages_may_be_mixed():
    """Chinese with English terms, and the other way round, is read as both."""
    assert side("帮我 debug 一下这个 race condition，分析 root cause") == "hard"
    assert side("Please 翻译 this: good morning") == "easy"
