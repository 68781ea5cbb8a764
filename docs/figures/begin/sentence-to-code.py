"""One claim, from its sentence to the code and its judges, and what stops where a link breaks."""

import re
from pathlib import Path

from attnref import attention_weights, oracle
from docs.figures.drawing import SECOND, SHADE, SMALL, SOFT, arrow, box, canvas, new_figure

TEXT = {
    "pt": {
        "page": "a página",
        "sentence": "Cada linha de pesos soma 1.",
        "test": "o teste",
        "code": "o código",
        "oracle": "o oráculo",
        "no-test": "sem teste: a montagem para",
        "false": "falsa: o teste falha",
        "different": "diferente: outros testes falham",
        "names": "chama",
        "leads": "leva a",
        "judged": "é comparado com",
    },
    "en": {
        "page": "the page",
        "sentence": "Each row of weights sums to 1.",
        "test": "the test",
        "code": "the code",
        "oracle": "the oracle",
        "no-test": "no such test: the build stops",
        "false": "false: the test fails",
        "different": "different: other tests fail",
        "names": "calls",
        "leads": "leads to",
        "judged": "is compared with",
    },
}

ROOT = Path(__file__).parents[3]
TEST = ROOT / "tests/theory/test_attention.py"
MARKED = r'claim\("rows-sum-to-one"\)\n(?:@.*\n)*def (\w+)'


def draw(text):
    (test,) = re.findall(MARKED, TEST.read_text(encoding="utf-8"))
    stations = (
        ("page", text["sentence"]),
        ("test", test),
        ("code", f"attnref.{attention_weights.__name__}"),
        ("oracle", f"oracle.{oracle.attend.__name__}"),
    )
    links = (("leads", "no-test"), ("names", "false"), ("judged", "different"))
    figure = new_figure(340)
    plane = canvas(figure)
    for number, (key, name) in enumerate(stations):
        top = 8 + 90 * number
        box(plane, 8, top, 404, 46, fill=SHADE, alpha=0.18)
        plane.text(18, top + 15, text[key], va="center", fontsize=SMALL, color=SOFT)
        plane.text(18, top + 33, name, va="center", fontweight="semibold")
    for number, (step, broken) in enumerate(links):
        top = 54 + 90 * number
        arrow(plane, (40, top), (40, top + 44))
        plane.text(52, top + 22, text[step], va="center", fontsize=SMALL)
        plane.text(
            412, top + 22, text[broken], ha="right", va="center", fontsize=SMALL, color=SECOND
        )
    return figure
