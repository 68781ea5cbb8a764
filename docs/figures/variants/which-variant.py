"""The whole decision at a glance: every way from the first question to a name."""

from pathlib import Path

import yaml

from docs.figures.drawing import FIRST, INK, SMALL, canvas, new_figure

TEXT = {"pt": {"language": "pt"}, "en": {"language": "en"}}

DECISION = Path(__file__).parent.parent.parent / "decision.yml"
TOP, ROW, STEP, LEFT = 16, 17, 82, 2


def draw(text):
    decision = yaml.safe_load(DECISION.read_text(encoding="utf-8"))
    questions, rows, lines = decision["questions"], [], []

    def place(name, depth):
        """Puts a question, or an end in a row of its own, and returns how far down it is."""
        if name in decision["ends"]:
            down = TOP + ROW * len(rows)
            rows.append((LEFT + STEP * depth, down, name))
            return down
        downs = [place(answer["to"], depth + 1) for answer in questions[name]["answers"]]
        lines.append((LEFT + STEP * depth, downs, questions[name]["short"][text["language"]]))
        return downs[0]

    place(next(iter(questions)), 0)
    figure = new_figure(TOP + ROW * len(rows))
    plane, small = canvas(figure), {"va": "center", "fontsize": SMALL}
    for left, downs, short in lines:
        trunk = left + STEP - 14
        words = plane.text(left, downs[0], short, **small, fontweight="semibold")
        end = words.get_window_extent().x1 + 4
        plane.plot([end, trunk + 9], [downs[0]] * 2, color=INK, linewidth=1)
        plane.plot([trunk] * 2, [downs[0], downs[-1]], color=INK, linewidth=1)
        for down in downs[1:]:
            plane.plot([trunk, trunk + 9], [down] * 2, color=INK, linewidth=1)
    for left, down, name in rows:
        own = name.rpartition(".")[2].removesuffix("_attention")
        short = "PyTorch" if name.startswith("torch.") else own
        plane.text(left, down, short, **small, color=FIRST)
    return figure
