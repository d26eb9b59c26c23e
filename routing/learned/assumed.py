"""Everyday asks, in English and in Chinese, with what is assumed of them: no public outcomes are of this kind.

Benchmarks hold examination questions. What people ask all day (a translation, a greeting, a design, a stack trace) is not in
them, so here is a little of it, as an assumption and not as a measurement: EASY asks are done well by either tier, HARD ones gain
from the dearer. Both languages of a pair count alike. Own traffic, once learned from, outweighs all of this.
"""

from __future__ import annotations

EASY = (0.95, 0.96)
"""Small and large: how good each is assumed to be."""
HARD = (0.55, 0.85)

EASY_PAIRS = (
    ("hi there", "你好呀"),
    ("Good evening!", "晚上好！"),
    ("Thanks, that was helpful", "谢谢，很有帮助"),
    ("Tell me a joke about cats", "讲一个关于猫的笑话"),
    ("Write a short poem about the sea", "写一首关于大海的短诗"),
    ("Write a thank-you email to a colleague", "给同事写一封感谢邮件"),
    ("Draft a birthday message for my friend", "给我的朋友写一段生日祝福"),
    ("Suggest five names for a coffee shop", "给咖啡店起五个名字"),
    ("Translate into Spanish: where is the station?", "翻译成西班牙语：车站在哪里？"),
    ("Translate this sentence into English: it is raining today.", "把这句话翻译成英语：今天下雨了。"),
    (
        "Summarize this paragraph in one sentence: the shop opened in May and sold bread.",
        "用一句话总结这段话：商店五月开业，卖面包。",
    ),
    ("Fix the grammar: he go to school every day.", "改正语法：他每天去了学校。"),
    ("Rewrite this text in a friendlier tone: send me the file.", "用更友好的语气改写：把文件发给我。"),
    ("Extract all dates from the text: we met on 3 May and 7 June.", "提取文中所有日期：我们在5月3日和6月7日见面。"),
    ("Classify the sentiment of this review: the food was cold.", "判断这条评论的情感：菜是凉的。"),
    ("What is the capital of Italy?", "意大利的首都是哪里？"),
    ("Who wrote Hamlet?", "哈姆雷特是谁写的？"),
    ("When did the Second World War end?", "第二次世界大战什么时候结束？"),
    ("How high is Mount Everest?", "珠穆朗玛峰有多高？"),
    ("What does CEO stand for?", "CEO是什么意思？"),
    ("What is a synonym for happy?", "快乐的同义词是什么？"),
    ("How many days are there in a week?", "一周有多少天？"),
    ("12 + 45 = ?", "12 + 45 等于多少？"),
    ("List three fruits that are red", "列出三种红色的水果"),
    ("Give me a simple recipe for pancakes", "给我一个简单的煎饼食谱"),
    ("Write a slogan for a bakery", "给面包店写一个口号"),
    ("Convert 5 kilometers to meters", "把5公里换算成米"),
    ("Sort these words alphabetically: pear, apple, fig", "把这些词按字母排序：pear, apple, fig"),
    ("What day comes after Monday?", "星期一之后是哪一天？"),
    ("Give the title of this story: a dog finds its way home.", "给这个故事起一个标题：一只狗找到了回家的路。"),
    ("Is a tomato a fruit? Answer yes or no.", "番茄是水果吗？回答是或否。"),
    ("Shorten this sentence: in my opinion the film is very good.", "缩短这句话：在我看来这部电影非常好。"),
)

HARD_PAIRS = (
    ("Prove that there are infinitely many prime numbers.", "证明素数有无穷多个。"),
    ("Prove by contradiction that the square root of 3 is irrational.", "用反证法证明根号3是无理数。"),
    ("Derive the formula for the sum of a geometric series.", "推导等比数列求和公式。"),
    ("Show that every subgroup of a cyclic group is cyclic.", "证明循环群的每个子群都是循环群。"),
    ("Solve the differential equation y'' + 4y = sin x and explain each step.", "求解微分方程 y'' + 4y = sin x，并解释每一步。"),
    ("Find the determinant and the eigenvalues of the matrix [[2,1],[1,3]].", "求矩阵 [[2,1],[1,3]] 的行列式和特征值。"),
    (
        "A tank fills in 6 hours and drains in 9 hours. How many hours does it take to fill with both open?",
        "一个水箱6小时注满，9小时放完。两个都打开，多少小时注满？",
    ),
    ("Design a rate limiter for a distributed system and analyse its trade-offs.", "为分布式系统设计一个限流器，并分析权衡。"),
    ("Compare microservices with a monolithic architecture and evaluate the cost.", "比较微服务和单体架构，并评估成本。"),
    ("Refactor this function and explain its time complexity.", "重构这个函数并解释它的时间复杂度。"),
    ("Debug this race condition in the thread pool and find the root cause.", "调试线程池中的并发错误，找出根本原因。"),
    ("Write a Python function that finds the longest palindrome in a string.", "写一个Python函数，找出字符串中最长的回文。"),
    ("Implement a queue with two stacks and analyse its complexity.", "用两个栈实现一个队列，并分析复杂度。"),
    ("Write an SQL query for the second highest salary in each department.", "写一个SQL查询，找出每个部门第二高的工资。"),
    ("Optimise this database query, which takes ten seconds on a large table.", "优化这个数据库查询，它在大表上要十秒。"),
    ("Analyse the causes of the financial crisis of 2008 step by step.", "一步一步分析2008年金融危机的原因。"),
    (
        "The tenant sues the landlord for breach of contract. Who bears the burden of proof?",
        "租客以违约起诉房东，谁承担举证责任？",
    ),
    (
        "Is the seller liable in tort for damages caused by a defective product? Analyse.",
        "产品有缺陷造成损害，卖方是否承担侵权责任？请分析。",
    ),
    (
        "Give the differential diagnosis for a patient with fever, acute chest pain and low blood pressure.",
        "给出一位发烧、急性胸痛、血压低的患者的鉴别诊断。",
    ),
    ("How does a mutation in this gene affect the protein and the enzyme reaction?", "这个基因的突变如何影响蛋白质和酶反应？"),
    ("Explain how the interest rate affects bond valuation and inflation.", "解释利率如何影响债券估值和通货膨胀。"),
    ("Calculate the entropy change of a gas in an isothermal process.", "计算气体在等温过程中的熵变。"),
    ("Assess the pros and cons of three strategies for entering the Japanese market.", "评估进入日本市场的三种策略的利弊。"),
    ("Design a database schema for a bank and justify each table.", "为银行设计数据库结构，并论证每个表的理由。"),
    (
        "Plan the migration of our server to a new architecture without losing data.",
        "规划把我们的服务器迁移到新架构，不丢失数据。",
    ),
    ("Think carefully: which of these two algorithms is correct, and why?", "仔细思考：这两个算法哪个正确，为什么？"),
    ("Evaluate the argument in this essay and critique its logic.", "评价这篇文章的论点，并批评它的逻辑。"),
    (
        "Find the probability that the sum of three dice is at least 15. Show your reasoning.",
        "求三个骰子之和至少为15的概率。请写出推理过程。",
    ),
    (
        "Implement a consensus protocol and analyse what happens when the network fails.",
        "实现一个共识协议，并分析网络失败时的结果。",
    ),
    ("Explain the proof of the fundamental theorem of calculus step by step.", "一步一步解释微积分基本定理的证明。"),
    ("Derive the velocity of a pendulum from the conservation of energy.", "从能量守恒推导单摆的速度。"),
    ("Diagnose the memory leak in this program and fix the error.", "诊断这个程序的内存泄漏并修复错误。"),
)
