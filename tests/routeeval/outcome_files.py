"""Small files of outcomes with something to learn in them."""

import json
import random

HARD = ("integral", "lemma", "tensor", "manifold")
EASY = ("colour", "greeting", "recipe", "weather")
FILL = ("about", "please", "tell", "which", "north", "seven", "garden", "paper", "river", "music", "stone", "lamp")


def rows(count, seed, share=0.5, score=1):
    """The strong model is better on hard words only; each row says its words in an order of its own."""
    rng = random.Random(seed)
    made = []
    for place in range(count):
        hard = rng.random() < share
        words = [*rng.sample(FILL, 7), rng.choice(HARD if hard else EASY)]
        weak = rng.random() < (0.2 if hard else 0.9)
        scores = {"weak": score * weak, "strong": score * (rng.random() < 0.95)}
        made.append({"id": f"{seed}-{place}", "prompt": " ".join(words), "category": f"c{place % 3}", "scores": scores})
    return made


def answers(count, seed, agree):
    """Two small models that agree so often, and are right when they do; the large one is always right."""
    rng = random.Random(seed)
    made = []
    for place in range(count):
        same = rng.random() < agree
        found = {"s1": 7.0 if same else None, "s2": 7.0, "big": 7.0}
        made.append(
            {"id": str(place), "dataset": "d", "gold": 7, "answers": found, "out_chars": {"s1": 100, "s2": 100, "big": 100}}
        )
    return made


def written(path, made):
    path.write_text("".join(json.dumps(it) + "\n" for it in made), encoding="utf-8")
    return path
