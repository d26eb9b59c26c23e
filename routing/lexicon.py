"""The words that the rules listen for, in English and in Chinese.

Rules
- English words are compared as whole words, in the forms written here or made by `_verbs` and `_nouns`. Chinese has no word
  borders: its words are looked for as they are, simplified and traditional.
- A word is in one list only. What it is worth is not said here but in `rules.WEIGHTS`.
- `DOMAIN` holds terms that hardly occur outside a field that is hard for small models (law, medicine, finance, science,
  mathematics, philosophy); `FIELD` holds everyday words of the same fields, of which it takes several to mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping


def _verbs(words: str) -> set[str]:
    forms: set[str] = set()
    for verb in words.split():
        stem = verb[:-1] if verb.endswith("e") else verb
        forms |= {verb, verb + "s", stem + "ed", stem + "ing"}
    return forms


def _nouns(words: str) -> set[str]:
    forms: set[str] = set()
    for noun in words.split():
        forms |= {noun, noun + "s", noun[:-1] + "ies" if noun.endswith("y") else noun + "es"}
    return forms


_PROOF = _verbs("prove disprove derive deduce") | _nouns("proof theorem lemma corollary conjecture derivation") | {"proven", "qed"}

_WORK = (
    _verbs(
        "analyse analyze evaluate assess critique compare contrast design refactor debug diagnose optimise optimize "
        "implement investigate troubleshoot benchmark migrate parallelise parallelize formalise formalize reconcile prioritise "
        "prioritize justify synthesise synthesize harden restructure redesign rewrite"
    )
    | _nouns("architecture analysis trade-off tradeoff roadmap strategy bottleneck deadlock regression root-cause vulnerability concurrency")
    | {"analyses", "debugging", "debugged", "planning", "rewriting", "scalable", "fault-tolerant", "distributed", "end-to-end"}
) - {"rewrite", "rewrites", "rewriting", "rewrited"}

_CODING = _nouns(
    "function algorithm regex api endpoint database query script bug compiler thread mutex pointer dataframe docker kubernetes "
    "codebase repository linter parser program website"
) | set(
    "python javascript typescript java rust golang sql postgres redis async await null nullptr recursion recursive stdin json html css "
    "bash react backend frontend git cuda pytorch segfault stacktrace coding programming unittest".split()
)

# Elementary mathematics.
_SUMS = _nouns(
    "sum product slope area perimeter probability average ratio fraction remainder digit triangle circle rectangle equation inequality "
    "divisor integer prime vertex angle radius diameter circumference parabola percentage binomial permutation "
    "combination quadratic polynomial square cube vector matrix"
) | {"divisible", "vertices", "matrices", "arithmetic", "geometric", "perpendicular", "parallel", "decimal", "solve", "simplify"}

_DOMAIN = (
    _nouns(
        # law
        "plaintiff defendant appellant appellee tort negligence tortfeasor estoppel easement fiduciary indemnity injunction mortgagee "
        "testator intestate decedent bailment hearsay subpoena affidavit lien covenant grantor grantee trustee jurisdiction statute "
        "precedent litigation arbitration misdemeanor felony larceny homicide manslaughter promissory offeree offeror "
        # medicine
        "diagnosis prognosis aetiology etiology pathogenesis carcinoma sarcoma lymphoma metastasis thrombosis embolism ischemia "
        "hypertension tachycardia bradycardia dyspnea edema oedema lesion biopsy contraindication pharmacokinetic antibiotic "
        "corticosteroid anticoagulant hemoglobin creatinine bilirubin electrolyte comorbidity triage syndrome neuropathy receptor "
        "enzyme allele genotype phenotype ribosome chromosome mitochondria antigen antibody cytokine plasmid codon peptide "
        # finance and economics
        "derivative hedging arbitrage amortization depreciation debenture annuity collateral securitization elasticity monopsony "
        "oligopoly externality heteroskedasticity liquidity portfolio valuation discounting covariance estimator likelihood "
        # physics and chemistry
        "hamiltonian lagrangian eigenvalue eigenvector eigenstate wavefunction quantum photon phonon boson fermion entropy enthalpy "
        "adiabatic isothermal isotope isomer enantiomer stereochemistry electrophile nucleophile catalyst titration molarity orbital "
        "spectroscopy diffraction refraction capacitance inductance impedance torque viscosity redshift relativistic nucleus "
        "stoichiometry oxidation ligand ester aldehyde ketone alkene polymer thermodynamic wavelength "
        # mathematics and computing theory
        "integral determinant homomorphism isomorphism manifold topology subgroup automorphism bijection martingale "
        "asymptotic convergence invariant modulo congruence combinatorial hypotenuse logarithm coefficient "
        "automaton np-hard consensus linearizability serializability "
        # philosophy and the like
        "epistemology ontology deontological utilitarianism syllogism categorical fallacy metaphysics hermeneutic historiography"
    )
    | set(
        "mens actus habeas certiorari prima statutory contractual appellate indictable tortious intravenous myocardial hepatic renal "
        "pulmonary cerebral malignant benign subcutaneous congenital mmol bayesian stochastic eigen covalent molar np-complete "
        "econometric macroeconomic microeconomic isotonic abelian cyclic injective surjective continuous differentiable orthogonal "
        "hermitian gdpr hipaa sox basel ifrs gaap".split()
    )
) - {"classes"}

_FIELD = _nouns(
    "court judge attorney lawyer contract clause liability landlord tenant lease claim damage crime murder robbery constitution amendment "
    "statement act party conveyance deed estate warranty patient symptom disease dose dosage tumor tumour fever infection therapy "
    "treatment surgery blood artery vein nerve muscle gene protein cell bacteria virus hormone clinical tax asset debt equity "
    "investor bond stock inflation demand supply price profit revenue cost market capital interest audit energy velocity acceleration "
    "force mass momentum frequency voltage current electron proton atom molecule acid base reaction variance "
    "graph axis theory hypothesis argument premise conclusion moral "
    "ethics cognition behavior psychologist pressure temperature gas solution radiation charge circuit field wave function sequence "
    "bank rate percent ratio loan policy evidence trial appeal"
) | {"legal", "medical", "financial", "chronic", "acute", "magnetic", "electric", "constitutional", "criminal", "civil", "legally"}

_REASON = _nouns("rationale")

_CONSTRAINT = set("must should ensure unless without exactly cannot only each every never always satisfy satisfies given assume suppose".split())

# Verbs of small chores; they count as instructions only (`features`).
CHORES = frozenset(
    "translate summarise summarize extract classify categorise categorize proofread paraphrase rephrase shorten spell reformat convert "
    "capitalise capitalize rewrite list count sort".split()
)

# Small things to write; they count only when something is to be written (`features`).
CREATIVE = frozenset(
    "poem joke haiku story email tweet caption slogan toast recipe limerick riddle postcard wish song blog invitation greeting note "
    "letter title headline poems jokes names".split()
)

_FORMAT = {"table", "markdown", "yaml", "csv", "xml", "bullet", "bullets", "headings", "paragraphs", "sections", "format"}


WORDS: Mapping[str, str] = {
    word: kind
    for kind, words in (
        ("field", _FIELD),
        ("coding", _CODING),
        ("format", _FORMAT),
        ("constraint", _CONSTRAINT),
        ("sums", _SUMS),
        ("reasoning", _REASON),
        ("domain", _DOMAIN),
        ("work", _WORK),
        ("proof", _PROOF),
    )
    for word in words
}
KNOWN = frozenset(WORDS)

# Phrases, looked for only where their rarest word is there.
PHRASES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "step": (("step by step", "reasoning"),),
    "step-by-step": (("step-by-step", "reasoning"),),
    "think": (("think hard", "reasoning"), ("think carefully", "reasoning"), ("think deeply", "reasoning"), ("think through", "reasoning")),
    "careful": (("careful thought", "reasoning"), ("careful reasoning", "reasoning")),
    "show": (("show your work", "reasoning"), ("show that", "proof"), ("show all steps", "reasoning")),
    "reasoning": (("your reasoning", "reasoning"), ("reasoning for", "reasoning")),
    "complexity": (("time complexity", "work"), ("space complexity", "work")),
    "pros": (("pros and cons", "work"),),
    "trade": (("trade-off", "work"), ("trade off", "work")),
    "root": (("root cause", "work"),),
    "race": (("race condition", "work"),),
    "memory": (("memory leak", "work"),),
    "word": (("one word", "brief"), ("single word", "brief"), ("a word", "brief")),
    "sentence": (("one sentence", "brief"), ("a sentence", "brief"), ("single sentence", "brief")),
    "line": (("one line", "brief"), ("single line", "brief")),
    "yes": (("yes or no", "brief"), ("yes/no", "brief")),
    "briefly": (("briefly", "brief"),),
    "key": (("key points", "chore"),),
    "grammar": (("grammar", "chore"),),
    "typos": (("typos", "chore"),),
    "spelling": (("the spelling", "chore"), ("spelling mistakes", "chore")),
    "synonym": (("synonym for", "chore"), ("synonym of", "chore")),
    "sentiment": (("sentiment", "chore"),),
    "summary": (("summary judgment", "domain"), ("summary of", "chore"), ("short summary", "chore")),
    "burden": (("burden of proof", "domain"),),
    "due": (("due process", "domain"), ("due diligence", "domain")),
    "differential": (("differential diagnosis", "domain"), ("differential equation", "domain")),
    "year-old": (("year-old man", "domain"), ("year-old woman", "domain"), ("year-old male", "domain"), ("year-old female", "domain")),
}
TRIGGERS = frozenset(PHRASES)

_ZH: Mapping[str, str] = {
    "proof": "证明 證明 推导 推導 定理 引理 归纳法 歸納法 反证 反證 求证 求證",
    "work": "分析 设计 設計 比较 比較 对比 對比 评估 評估 调试 調試 重构 重構 优化 優化 架构 架構 实现 實現 排查 诊断 診斷 权衡 權衡 利弊 "
    "优缺点 優缺點 迁移 遷移 根因 死锁 死鎖 并发 並發 瓶颈 瓶頸 分布式 分散式 内存泄漏 記憶體洩漏 复杂度 複雜度 方案 规划 規劃 策略 论证 論證",
    "coding": "代码 代碼 程式碼 函数 函數 算法 演算法 接口 数据库 資料庫 脚本 腳本 正则 正則 编译 編譯 线程 執行緒 报错 報錯 单元测试 單元測試 程序",
    "domain": "原告 被告 侵权 侵權 过失 過失 管辖 管轄 判例 仲裁 诉讼 訴訟 善意取得 抵押权 违约金 举证 民法典 刑法 合同法 诊疗 鉴别诊断 鑑別診斷 病因 "
    "预后 預後 肿瘤 腫瘤 转移灶 血栓 栓塞 缺血 高血压 高血壓 水肿 禁忌症 抗凝 综合征 綜合徵 受体 受體 染色体 染色體 抗体 抗體 线粒体 "
    "衍生品 对冲 對沖 套利 摊销 攤銷 折旧 折舊 年金 弹性 彈性 垄断 壟斷 估值 贴现 貼現 协方差 協方差 量子 波函数 波函數 哈密顿 拉格朗日 熵 焓 "
    "特征值 特徵值 同位素 光谱 光譜 衍射 绕射 积分 積分 微分方程 行列式 同构 同構 同态 流形 拓扑 拓撲 子群 收敛 收斂 "
    "渐近 贝叶斯 貝葉斯 随机过程 线性一致 共识算法 共識演算法 认识论 認識論 本体论 本體論 形而上学 谬误 謬誤 连续函数 可微 连带责任 连帶責任 心肌梗死 心肌梗塞",
    "sums": "概率 機率 面积 面積 周长 周長 之和 平均 比例 分数 分數 余数 餘數 三角形 圆 圓 矩形 方程 不等式 整数 整數 素数 質數 质数 半径 半徑 直径 斜率 求解 化简 多项式 多項式 矩阵 矩陣 向量",
    "field": "法院 律师 律師 合同 条款 條款 责任 責任 房东 房東 租约 租客 犯罪 宪法 憲法 法律 患者 病人 症状 症狀 疾病 剂量 劑量 药物 藥物 治疗 治療 手术 "
    "手術 感染 基因 蛋白 细胞 細胞 临床 臨床 税 稅 资产 資產 债务 債務 投资 投資 债券 債券 股票 通胀 通脹 利率 利润 利潤 成本 能量 速度 加速度 质量 "
    "动量 頻率 频率 电压 電壓 电子 電子 质子 原子 分子 反应 反應 方差",
    "reasoning": "一步一步 逐步 一步步 仔细思考 仔細思考 深入思考 认真思考 認真思考 写出过程 寫出過程 解题过程 解題過程 推理过程 推理過程 思考过程 详细推理",
    "constraint": "必须 必須 要求 确保 確保 不能 不得 至少 至多 最多 恰好 除非 每个 每個 假设 假設 给定 給定 满足 滿足 约束 約束 只能",
    "chore": "翻译 翻譯 总结 總結 概括 摘要 提取 抽取 分类 分類 归类 改写 改寫 润色 潤色 缩写 縮寫 错别字 錯別字 列出 列举 列舉 同义词 反义词 关键词 標題 标题 情感",
    "creative": "诗 詩 笑话 笑話 故事 邮件 郵件 文案 口号 口號 菜谱 食譜 谜语 謎語 祝福 贺卡 朋友圈",
    "format": "表格 格式 段落 小标题",
    "brief": "一句话 一句話 一个词 一個詞 简短 簡短 简要 簡要 是或否 是还是否",
    "lookup": "是谁 是誰 谁是 谁发 谁写 誰寫 什么时候 什麼時候 何时 何時 哪一年 哪年 在哪 哪里 哪裡 首都 多高 多大 多远 多少人口 人口 出生 什么意思 什麼意思 的意思 定义",
    "lookup_weak": "是什么 是什麼 什么是 什麼是 哪个 哪個 叫什么 叫什麼",
}


def _by_first_character() -> dict[str, tuple[tuple[str, str], ...]]:
    index: dict[str, tuple[tuple[str, str], ...]] = {}
    for kind, words in _ZH.items():
        for word in words.split():
            index[word[0]] = (*index.get(word[0], ()), (word, kind))
    return index


ZH_WORDS: Mapping[str, tuple[tuple[str, str], ...]] = _by_first_character()
ZH_FIRST = frozenset(ZH_WORDS)

# Words that English cannot do without and that are rare in other languages written in Latin letters.
ENGLISH = frozenset(
    "the of is are was what how to and with this that which you your my can please it be from by as at have has if then not when "
    "where why who should would does do there into his her their they".split()
)
