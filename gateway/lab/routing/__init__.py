"""The complexity router, scored on labelled outcomes of a weak and a strong model: `tiergate route-eval`.

    data, outcomes             files of rows; a pair of models, their scores from 0 to 1
    folds, protocols           what may be learned from and what it is told on: own labels, other tasks, other files
    scored, litellm            what a router says of prompts; the peers' scorers where their package is installed
    lessons, learning          policies by the gateway's own trainer, several at a time
    metrics, measured          APGR, CPT, calibration and the bootstrap; the figures of one router on one set
    travel, latency            what a threshold sends elsewhere; CPU of one decision
    stream                     a budget while the traffic shifts, by the gateway's own cuts
    answers, replay, cascade   cascades over parsed answers, by the gateway's own rule and switch
    study, table, plots        one document, and what is printed and drawn from it

Rules
- What is judged, trained, cut or compared is so by the product's code. Nothing here has an opinion of its own about a prompt.
- Nothing is learned from what it is told on, under whatever name or template.
- Figures come with 95 % intervals over rows, and beside what the length of the prompt gives for nothing.
- Randomness is seeded: the same command over the same data gives the same figures.
"""
