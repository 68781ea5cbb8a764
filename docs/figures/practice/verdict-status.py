"""Which verdicts make the command fail: without options, strictly, and where they are expected."""

from dataclasses import replace

from attnref.conformance import PROPERTIES, Result, Verdict
from attnref.conformance.result import WORDS
from attnref.conformance.verdict import Expectation, Finding
from docs.figures.drawing import FIRST, GROUND, SMALL, SOFT, box, canvas, new_figure

TEXT = {
    "pt": {"cases": "sem opções|--strict|esperado", "legend": "Cheio: o comando termina com 1."},
    "en": {"cases": "no options|--strict|expected", "legend": "Filled: the command ends with 1."},
}
for lang, words in TEXT.items():
    words["verdicts"] = "|".join(WORDS[verdict].say(lang) for verdict in Verdict)

LEFT, STEP, TOP, ROW = 150, 92, 40, 30


def draw(text):
    figure = new_figure(TOP + len(Verdict) * ROW + 30)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    centres = [LEFT + STEP * (column + 0.5) for column in range(3)]
    for centre, name in zip(centres, text["cases"].split("|"), strict=True):
        plane.text(centre, 20, name, ha="center", **small)
    words = text["verdicts"].split("|")
    for row, (verdict, word) in enumerate(zip(Verdict, words, strict=True)):
        middle = TOP + ROW * (row + 0.5)
        plane.text(LEFT - 6, middle, word, ha="right", va="center")
        rule = PROPERTIES["scale"]
        found = Result(rule, Finding(verdict, rule.statement))
        cells = [found.fails(), found.fails(strict=True)]
        if verdict is not Verdict.PASS:  # which is expected without a word
            expected = replace(found, expectation=Expectation(verdict, "a reason"))
            cells.append(expected.fails(strict=True))
        for centre, fails in zip(centres, cells, strict=False):
            ground = FIRST if fails else GROUND
            box(plane, centre - 9, middle - 9, 18, 18, fill=ground, edge=SOFT)
    plane.text(LEFT - 6, TOP + len(Verdict) * ROW + 14, text["legend"], **small)
    return figure
