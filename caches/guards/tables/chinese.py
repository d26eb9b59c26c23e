"""Chinese: what carries grammar and manners, question words, dates, negation, opposites. Longer entries win."""

from __future__ import annotations

from caches.guards.tables import words

MANNERS = words(
    """
    现在 目前 请问 请 麻烦 帮我 帮忙 帮 一下 能否 能不能 可不可以 可否 是否 是不是 会不会 要不要 有没有 好不好 你好 您好 谢谢
    谢谢你 想知道 我想知道 告诉我 求助 求 大家 各位 知道 谁知道 有谁知道 我想 我要 我们 你们 咱们 这 那 就 都 也 还 吗 呢 吧
    啊 呀 嘛 哦 的 了 着 过 地 得 之 所 其 而 且 个 位 只 条 座 座城市 城市 是 在 有 为 与 和 及 跟 同 把 将 被 给 对 对于
    关于 里 中 上面 里面 可以 能 会 要 想 应该 应当 需要 该 才 呢 么 啦 哈 啥的 到底 究竟 一个 一种 一些 一样 一起 一直 一般
    一定 不错 差不多 不过 不仅 特别 别人 区别 类别 级别 性别 分别 无论 非常 非洲 十分 千万 万一 百度 十足 进行 去 来 用
    """
)
"""Dropped: their coming and going changes no answer."""

KEPT = words("区别 类别 级别 性别 非洲 百度 万一 上面 里面 城市 来 用 特别 别人")
"""Of those, what is matter and not grammar: listed there only so that no numeral or negation is read inside it."""

FRAMES = {
    "@how": "怎样 怎么 怎么办 如何 咋 怎样才能 怎么才能 如何才能 方法 办法",
    "@experience": "怎么样 咋样 怎么样的",
    "@why": "怎么回事 怎么了 咋回事 为什么 为何 为啥 什么原因 怎么会 原因",
    "@where": "哪里 哪儿 在哪 何处 什么地方 哪里有 啥地方",
    "@when": "什么时候 何时 几点 啥时候 哪天 哪一年 哪年 什么时间 几号 几月",
    "@who": "谁 何人 什么人",
    "@price": "多少钱 价格 什么价 价位 价钱 怎么卖",
    "@howmany": "多少 几个 几",
    "@howlong": "多久 多长时间 几天 多长",
    "@howold": "多大 几岁",
    "@what": "什么 是什么 啥 哪个 哪些 哪种 什么样 什么样的 哪 哪一个 什么意思 意思 等于",
}

DATES = {
    "今天": "today", "今日": "today", "今晚": "tonight", "明天": "tomorrow", "明日": "tomorrow", "后天": "overmorrow",
    "昨天": "yesterday", "昨日": "yesterday", "前天": "ereyesterday", "大后天": "in3days",
    "今年": "thisyear", "明年": "nextyear", "去年": "lastyear", "前年": "year-2", "后年": "year+2", "本月": "thismonth",
    "这个月": "thismonth", "下个月": "nextmonth", "上个月": "lastmonth", "这周": "thisweek", "本周": "thisweek",
    "下周": "nextweek", "上周": "lastweek", "上午": "am", "早上": "am", "早晨": "am", "下午": "pm", "晚上": "night",
    "中午": "noon", "凌晨": "dawn", "星期一": "monday", "周一": "monday", "礼拜一": "monday", "星期二": "tuesday",
    "周二": "tuesday", "礼拜二": "tuesday", "星期三": "wednesday", "周三": "wednesday", "礼拜三": "wednesday",
    "星期四": "thursday", "周四": "thursday", "礼拜四": "thursday", "星期五": "friday", "周五": "friday", "礼拜五": "friday",
    "星期六": "saturday", "周六": "saturday", "礼拜六": "saturday", "星期日": "sunday", "星期天": "sunday", "周日": "sunday",
    "礼拜天": "sunday", "周末": "weekend", "春天": "spring", "夏天": "summer", "秋天": "autumn", "冬天": "winter",
    "春节": "newyear", "国庆": "nationalday", "第一季度": "q1", "第二季度": "q2", "第三季度": "q3", "第四季度": "q4",
    "上半年": "h1", "下半年": "h2",
}  # fmt: skip

NEGATORS = words("不是 不能 不会 不要 不用 不可以 不应该 不可 不得 没有 没 未 无 非 别 勿 莫 不 禁止 除了")

UNITS = {
    "公斤": "kg", "千克": "kg", "斤": "jin", "毫克": "mg", "克": "g", "吨": "tonne", "公里": "km", "千米": "km",
    "英里": "mile", "厘米": "cm", "毫米": "mm", "米": "m", "毫升": "ml", "升": "liter", "加仑": "gallon", "英寸": "inch",
    "英尺": "ft", "码": "yard", "摄氏度": "celsius", "华氏度": "fahrenheit", "度": "degree", "小时": "hour", "分钟": "minute",
    "秒": "second", "天": "day", "周": "week", "星期": "week", "个月": "month", "月": "month", "年": "year", "岁": "age",
    "元": "yuan", "块": "yuan", "块钱": "yuan", "人民币": "yuan", "美元": "dollar", "美金": "dollar", "欧元": "euro",
    "英镑": "gbp", "日元": "yen", "点": "oclock", "号": "nth", "日": "nth",
}  # fmt: skip
"""Behind a number only."""

DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
TENS = {"十": 10, "百": 100, "千": 1000}
MYRIADS = {"万": 10**4, "亿": 10**8}

PERSONS = {"我": "i", "咱": "i", "你": "you", "您": "you"}
"""Who asks, and who is asked."""
