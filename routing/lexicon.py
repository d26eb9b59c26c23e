"""Chinese terms and the English words that they mean, so that a classifier trained on English reads Chinese too.

A run of characters is cut greedily, the longest known term first; a character that begins none stands for itself. It is a word
list, not a translation: it says what a text is about and what it asks for.

Rules
- A line of `lexicon.txt` is English words and the terms that mean them, simplified. A dash: the terms say nothing.
- Traditional characters are read as simplified ones, those that are listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_TRADITIONAL = (
    "個們這麼誰時為爲證導設計實現優類數據庫碼語譯總結舉寫詩講話說錯別郵標題問應該請對較評價調試構變線執運動電腦網絡務戶統軟鍵"
    "歷國漢經濟學醫藥療診斷壓細質損賠償訴訟責權約財產資債稅銀錢買賣單書筆車長寬圓積體徑級極連續項陣幾兩從會進過還沒給讓創東達"
    "萬億歲鐘華樂氣熱離測觀報紙關開團員師爺媽愛親詳簡義詞讀選擇認識記錄論謝見嗎點樣條種顯塊環圖樹隊協議鎖複雜階確無終則減歸納"
    "頸內洩後夠幫發燒"
)
_SIMPLIFIED = (
    "个们这么谁时为为证导设计实现优类数据库码语译总结举写诗讲话说错别邮标题问应该请对较评价调试构变线执运动电脑网络务户统软键"
    "历国汉经济学医药疗诊断压细质损赔偿诉讼责权约财产资债税银钱买卖单书笔车长宽圆积体径级极连续项阵几两从会进过还没给让创东达"
    "万亿岁钟华乐气热离测观报纸关开团员师爷妈爱亲详简义词读选择认识记录论谢见吗点样条种显块环图树队协议锁复杂阶确无终则减归纳"
    "颈内泄后够帮发烧"
)


def _read_terms() -> dict[str, dict[str, tuple[str, ...]]]:
    index: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in Path(__file__).with_name("lexicon.txt").read_text("utf-8").splitlines():
        english, _, terms = line.partition(" : ")
        words = () if english == "-" else tuple(english.split())
        for term in terms.split():
            index.setdefault(term[0], {}).setdefault(term, words)
    return index


# Terms under their first character, and how long they are, the longest first.
TERMS: Mapping[str, Mapping[str, tuple[str, ...]]] = _read_terms()
_SIZES: Mapping[str, tuple[int, ...]] = {
    first: tuple(sorted({len(term) for term in terms}, reverse=True)) for first, terms in TERMS.items()
}
_SAME = str.maketrans(_TRADITIONAL, _SIMPLIFIED)


def translated(run: str) -> list[str]:
    """The words of a run of characters."""
    run = run.translate(_SAME)
    words: list[str] = []
    place, end = 0, len(run)
    while place < end:
        first = run[place]
        sizes = _SIZES.get(first)
        if sizes is not None:
            terms = TERMS[first]
            for size in sizes:
                found = terms.get(run[place : place + size])
                if found is not None:
                    words += found
                    place += size
                    break
            else:
                words.append(first)
                place += 1
        else:
            words.append(first)
            place += 1
    return words
