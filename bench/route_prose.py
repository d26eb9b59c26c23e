"""The words between the tables of docs/routing-eval.md."""

TOP = """\
# How good is the router?

Written by `make route-eval`; every figure is measured, none is tuned on what it is told of. Public outcomes of a weak and
a strong model on the same prompts: what a router would have gained, had it chosen between the two.

```console
$ {command}
$ tiergate route-eval own.jsonl.gz --pair small-model large-model   # outcomes of your own
$ tiergate route-eval bench/routing/mmlu_pro_sample.jsonl.gz        # a sample in this repository
```

**APGR** is the gap in quality between the two models that is recovered, averaged over the share sent to the strong one:
chance has .500, and so has a router that always says the same. **CPT(50)** is the share of calls to the strong model that
recovers half of the gap (chance: .500), CPT(80) four fifths (RouteLLM, Ong et al. 2024). In brackets: 95 % intervals of
{draws:,} bootstrap draws over rows. *Over length* is APGR less that of ordering prompts by their length, draw by draw:
what is not above zero is not worth its code. *Within tasks* is APGR if each task sent the same share: no credit for
telling tasks apart. *Don't know* is the share of prompts on which a router abstains; they count as a tie that goes to the
{default} tier first.
"""

LEARNED_FROM = """\
How `learned` was trained, by the gateway's own trainer:

| learned from | means |
|---|---|
| N of this set | five folds; N labels of the other four, told on the fifth; what begins alike (90 letters) shares a fold |
| N of this set, rows split at random | as in publications: N rows by chance, all others told; mean and range of 5 |
| its other tasks | whole categories (or groups of them) are told by a policy that saw none of their rows |
| its other tasks, levelled | the same, less what each of these policies says on average of its own held-out rows |
| a file, all others | told by a policy of other files, without the questions that they share with this one |
| base + N of this set | the policy of all other files, then N labels of this set: what `tiergate calibrate` does |

Rows that are split at random leave what begins alike on both sides: right for traffic whose templates come again, too kind for
asks of a new kind. Brackets of that line are the least and the most of the five, no interval.

`its other tasks` is the figure to hold against others' *leave-task-out*: every policy's scores as they are, in one order
over all rows, as whoever leaves a group out and pools the rest does. Of the ways to put left-out tasks together it is
also the one under which plain ridge regressions and nearest neighbours come out where they are known to be on this kind
of data; docs/learned.md has the figures. It is a hard test: a policy that has not seen the task that gains most believes
that all gains less, and bare scores of policies with a task left out are in a wrong order by that alone, which is what
levelling takes out. One policy that serves all has no such trouble. How wrong that order is: `means of other tasks`
scores each prompt by the mean gap that its policy was trained on, and knows nothing of the prompt. This, and not .500, is
chance for bare scores of left-out tasks.

`task oracle` and `oracle` have seen the answers: the mean gap of the prompt's task, and the gap of the prompt itself.
Nothing can reach them. Labels are single greedy answers, and noisy.
"""

TRAVEL = """\
A threshold that sends {tuned:.0%} of one set to the strong model, and the share that it sends of each set. For `learned`
the threshold is that of its own held-out rows. This is why a budget is kept by a rolling quantile, and why a raw
`threshold` is not portable.
"""

CALIBRATION = """\
Expected calibration error of P(small is good enough) and P(large is good enough), ten bins of equal width, over the rows
that the router claims to know; and the Brier score. What is perfectly calibrated measures above zero too, the more so the
fewer the rows.
"""

STREAMS = """\
2,000 requests of one set, then 2,000 of another; a policy learned from half of the first (its other half is the stream),
the gateway's own cuts with that policy's prior. Shares that go up: the last 500 before the shift, the first 500 after it,
all after those, and of every 500 in a row after those the farthest from the budget. Beside it the threshold that is right
for the first set, left alone; and the quality that was reached, beside that of chance with as many sent.

Farthest from the budget once settled: {worst:.1f} points; over the first 500 after the shift: {early:.1f}.
"""

CASCADES = """\
Replayed over parsed answers: two small models are asked, and the large one where they do not agree. Costs are in units of
always asking the large model, a call (or a character of output) of which costs ten of a small one's. The public data have
one greedy answer of each model: two models stand for two samples of one, whose errors would be more alike. *Tried*: the
share that the cascade's own switch lets through, which sees only whether the answers agreed. *Over large* is accuracy
less that of the large model alone.
"""

AS_SHIPPED = """
`learned, as shipped` is the policy in this repository (`make route-weights`). It was trained on all of these sets but
MT-Bench, so that its figures on the others are no evidence; what a policy of all other files gives there is.
"""
