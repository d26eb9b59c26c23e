"""The result for people to read, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.lab.columns import columns

Json = Mapping[str, Any]


def table(document: Json) -> str:
    return "\n\n".join([_data(document), *(_part(part) for part in document["results"]), *_costs(document["embedders"])])


def _data(document: Json) -> str:
    lines = []
    for data in document["data"]:
        left = f", {data['left_out']} left out (ambiguous, or no sentence)" if data["left_out"] else ""
        what = (
            "lookups" if data["kind"] == "lookups" else f"{data['kind']}, {data['wanted']:,} wanted and {data['traps']:,} traps"
        )
        lines.append(f"data      {data['name']}: {data['pairs']:,} {what}{left}")
    lines += [f"embedder  {embedder['name']}, fingerprint {embedder['fingerprint']}" for embedder in document["embedders"]]
    return "\n".join(lines)


def _part(part: Json) -> str:
    body = {"scores": _scores, "lookups": _lookups, "stream": _stream, "calibration": _calibration}[part["kind"]]
    return "\n".join([f"== {part['data']}, {part['embedder']}", *body(part)])


def _scores(part: Json) -> Iterator[str]:
    rows = [
        [it["policy"], *(_share(it[name]) for name in ("served", "traps_served", "precision")), *_asked(it)]
        for it in part["scores"]
    ]
    yield from columns(["policy", "served of wanted", "served of traps", "right of served", "judge asked"], rows)
    yield from _curves(part["curves"], "served of wanted")
    yield from _categories(part["scores"])


def _categories(scores: Sequence[Json]) -> Iterator[str]:
    names = sorted({name for it in scores for name in it["categories"]})
    rows = []
    for key, what in (("served", "wanted"), ("traps_served", "traps")):
        for name in names:
            cells = [it["categories"][name][key] for it in scores]
            if cells[0]["of"]:
                rows.append([what, name, *(f"{cell['hits']}/{cell['of']}" for cell in cells)])
    if rows:
        yield ""
        yield from columns(["served of", "category", *(it["policy"] for it in scores)], rows)


def _lookups(part: Json) -> Iterator[str]:
    rows = [[it["policy"], *(_share(it[name]) for name in ("hits", "right", "wrong")), *_asked(it)] for it in part["lookups"]]
    yield from columns(["policy", "hits", "right", "wrong", "judge asked"], rows)
    yield from _curves(part["curves"], "right of all")


def _curves(curves: Sequence[Json], what: str) -> Iterator[str]:
    if not curves:
        return
    yield ""
    bounds = [f"<= {point['bound']:.1%}" for point in curves[0]["at_error"]]
    rows = [[it["name"], *(_at(point) for point in it["at_error"])] for it in curves]
    yield from columns([f"{what}, error", *bounds], rows)


def _stream(part: Json) -> Iterator[str]:
    asks, clusters = part["asks"], part["clusters"]
    yield (
        f"{asks['asks']:,} questions of {clusters['used']:,} clusters ({clusters['alone']:,} texts alone, left out; "
        f"{clusters['conflicts']:,} traps inside a cluster)"
    )
    yield f"exact cache alone {_percent(asks['exact_alone'])}, ceiling {_percent(asks['ceiling'])}"
    rows = []
    for course in part["courses"]:
        rows.append(_course(course["policy"], course, course))
        if "after_learning" in course:
            rows.append(_course(f"  from question {course['after_learning']['from']:,} on", course["after_learning"]))
            rows.append(_course("  without learning", course["without_learning"]))
    head = ["policy", "hits", "exact", "by meaning", "wrong", "each question once", "by a label", "embedded", "verified"]
    yield from columns(head, rows)


def _course(name: str, ends: Json, whole: Json | None = None) -> list[str]:
    """`whole`: of a whole stream there is more to tell than of the end of one."""
    shares = [f"{ends[key]['share']:.2%}" for key in ("hits", "exact", "semantic")]
    more = ["-"] * 4
    if whole is not None:
        counts = (whole["embedded"], whole["judge_asked"] + whole["shadow_verified"])
        more = [f"{whole[key]['share']:.2%}" for key in ("wrong_once", "wrong_by_label")] + [f"{count:,}" for count in counts]
    return [name, *shares, _share(ends["wrong"], digits=2), *more]


def _calibration(part: Json) -> Iterator[str]:
    first = part["calibrations"][0]
    bound = f"{first['max_error']:.1%}"
    yield f"at most {bound} of what is served is to be wrong, with 95 % confidence"
    yield f"({first['needed']:,} served pairs without an error show it)"
    rows = []
    for it in part["calibrations"]:
        rows += [_half(it, "own cut", "chosen", it["own"]), _half(it, "own cut", "told", it["own"])]
        if it["cut"] is not None:
            rows += [_half(it, f"{it['cut']:.4f}", half, it) for half in ("chosen", "told")]
        else:
            rows.append([it["preset"], "none", *[f"no cut shows it on {it['chosen_on']:,} pairs", "-", "-", "-"]])
    yield from columns(["preset", "cut", "half", "served of wanted", "served of traps", "right of served"], rows)
    yield ""
    yield from part["config"]


def _half(it: Json, cut: str, half: str, counts: Json) -> list[str]:
    shares = [_share(counts[half][name]) for name in ("served", "traps_served", "precision")]
    return [it["preset"], cut, f"{half} on {it[f'{half}_on']:,}", *shares]


def _costs(embedders: Sequence[Json]) -> Iterator[str]:
    rows = []
    for it in embedders:
        for what, cost in it["cost"].items():
            rows.append([f"{it['name']}, one {what}", *(f"{cost[name]:.3f}" for name in ("mean_ms", "p50_ms", "p95_ms"))])
    if rows:
        yield "\n".join(columns(["ms of CPU", "mean", "p50", "p95"], rows))


def _asked(it: Json) -> list[str]:
    return [f"{it['judge_asked']:,}" if it["judge_asked"] else "-"]


def _at(point: Json) -> str:
    return "nothing" if point["cut"] is None else f"{point['recall']:.1%} from {point['cut']:.3f}"


def _share(it: Json, digits: int = 1) -> str:
    if it["share"] is None:
        return "-"
    return f"{it['share']:.{digits}%} ({it['low']:.{digits}%}-{it['high']:.{digits}%}) {it['hits']:,}/{it['of']:,}"


def _percent(it: Json) -> str:
    return "-" if it["share"] is None else f"{it['share']:.1%}"
