"""The Chinese words that the rules listen for, simplified and traditional.

Chinese has no word borders: the words are looked for as they stand. To look for few of them, they are kept under their first
character; a text that lacks the character lacks them all. The kinds are those of `words_en`.
"""

from __future__ import annotations

from collections.abc import Mapping

_WORDS: Mapping[str, str] = {
    "proof": """
        证明 證明 推导 推導 定理 引理 归纳法 歸納法 反证 反證 求证 求證
    """,
    "work": """
        分析 设计 設計 比较 比較 对比 對比 评估 評估 调试 調試 重构 重構 优化 優化 架构 架構 实现 實現 排查 诊断 診斷
        权衡 權衡 利弊 优缺点 優缺點 迁移 遷移 根因 死锁 死鎖 并发 並發 瓶颈 瓶頸 分布式 分散式 内存泄漏 記憶體洩漏
        复杂度 複雜度 方案 规划 規劃 策略 论证 論證
    """,
    "coding": """
        代码 代碼 程式碼 函数 函數 算法 演算法 接口 数据库 資料庫 脚本 腳本 正则 正則 编译 編譯 线程 執行緒 报错 報錯
        单元测试 單元測試 程序 爬虫
    """,
    "domain": """
        原告 被告 侵权 侵權 过失 過失 管辖 管轄 判例 仲裁 诉讼 訴訟 善意取得 抵押权 抵押權 违约金 違約金 举证 舉證
        民法典 刑法 合同法 连带责任 連帶責任 诊疗 診療 鉴别诊断 鑑別診斷 病因 预后 預後 肿瘤 腫瘤 血栓 栓塞 缺血
        高血压 高血壓 水肿 水腫 禁忌症 抗凝 华法林 综合征 綜合徵 受体 受體 染色体 染色體 抗体 抗體 线粒体 粒線體
        心肌梗死 心肌梗塞 衍生品 对冲 對沖 套利 摊销 攤銷 折旧 折舊 年金 弹性 彈性 垄断 壟斷 估值 贴现 貼現 协方差
        協方差 量子 波函数 波函數 哈密顿 哈密頓 拉格朗日 熵 焓 特征值 特徵值 同位素 光谱 光譜 衍射 绕射 积分 積分
        微分方程 行列式 同构 同構 同态 同態 流形 拓扑 拓撲 子群 收敛 收斂 渐近 漸近 贝叶斯 貝葉斯 随机过程 隨機過程
        线性一致 共识算法 认识论 認識論 本体论 本體論 形而上学 謬誤 谬误 连续函数 可微
    """,
    "elementary": """
        概率 機率 面积 面積 周长 周長 之和 平均 比例 分数 分數 余数 餘數 三角形 圆 圓 矩形 方程 不等式 整数 整數 素数
        質數 质数 半径 半徑 直径 直徑 斜率 求解 化简 化簡 多项式 多項式 矩阵 矩陣 向量
    """,
    "field": """
        法院 律师 律師 合同 条款 條款 责任 責任 房东 房東 租约 租約 租客 犯罪 宪法 憲法 法律 患者 病人 症状 症狀 疾病
        剂量 劑量 药物 藥物 治疗 治療 手术 手術 感染 基因 蛋白 细胞 細胞 临床 臨床 税 稅 资产 資產 债务 債務 投资
        投資 债券 債券 股票 通胀 通脹 利率 利润 利潤 成本 能量 速度 加速度 质量 動量 动量 频率 頻率 电压 電壓 电子
        電子 质子 質子 原子 分子 反应 反應 方差
    """,
    "reasoning": """
        一步一步 逐步 一步步 仔细思考 仔細思考 深入思考 认真思考 認真思考 写出过程 寫出過程 解题过程 解題過程
        推理过程 推理過程 思考过程 思考過程 详细推理 詳細推理
    """,
    "constraint": """
        必须 必須 要求 确保 確保 不能 不得 至少 至多 最多 恰好 除非 每个 每個 假设 假設 给定 給定 满足 滿足 约束 約束
        只能
    """,
    "chore": """
        翻译 翻譯 总结 總結 概括 摘要 提取 抽取 分类 分類 归类 歸類 改写 改寫 润色 潤色 缩写 縮寫 错别字 錯別字 列出
        列举 列舉 同义词 同義詞 反义词 反義詞 关键词 關鍵詞 情感
    """,
    "creative": """
        诗 詩 笑话 笑話 故事 邮件 郵件 文案 口号 口號 菜谱 食谱 食譜 谜语 謎語 祝福 贺卡 賀卡 朋友圈 标题 標題
    """,
    "format": """
        表格 格式 段落 小标题 小標題
    """,
    "brief": """
        一句话 一句話 一个词 一個詞 简短 簡短 简要 簡要 是或否
    """,
    "fact": """
        是谁 是誰 谁是 誰是 谁发 誰發 谁写 誰寫 什么时候 什麼時候 何时 何時 哪一年 哪年 在哪 哪里 哪裡 首都 多高 多大
        多远 多遠 人口 出生 什么意思 什麼意思 的意思 定义 定義 哪个国家 哪個國家
    """,
    "what": """
        是什么 是什麼 什么是 什麼是 叫什么 叫什麼
    """,
}


def _by_first_character() -> dict[str, tuple[tuple[str, str], ...]]:
    index: dict[str, tuple[tuple[str, str], ...]] = {}
    for kind, words in _WORDS.items():
        for word in words.split():
            index[word[0]] = (*index.get(word[0], ()), (word, kind))
    return index


KINDS: Mapping[str, tuple[tuple[str, str], ...]] = _by_first_character()
FIRST = frozenset(KINDS)
