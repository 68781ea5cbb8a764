"""The ceiling of the exponentials over the width of a head, on two GPUs."""

import torch

from attnref import cost
from attnref.roofline import Machine
from docs.figures.drawing import FIRST, INK, SECOND, axes, label, name_axes, new_figure, ticks

TEXT = {
    "pt": {
        "x": "largura da cabeça, $d = d_k = d_v$",
        "y": "cota: trilhões de operações por segundo em produtos",
        "exponential": "limitado pelas\nexponenciais",
        "compute": "limitado pelos\nprodutos",
    },
    "en": {
        "x": "width of a head, $d = d_k = d_v$",
        "y": "bound: trillion operations per second in products",
        "exponential": "limited by\nexponentials",
        "compute": "limited by\nproducts",
    },
}

HALF = torch.bfloat16
H100 = Machine("H100", {HALF: 989e12}, 3.35e12, exponentials_per_second=3.9e12)
B200 = Machine("B200", {HALF: 2.25e15}, 8e12, exponentials_per_second=2.25e15 * 16 / 8192)
WIDTHS = [2**step for step in range(4, 10)]
MARKED = (64, 128, 256)


def peak_rate(machine, d):
    """Trillion operations per second in products, when the slowest unit never waits."""
    sizes = cost.Sizes(n=8192, m=8192, d_k=d, d_v=d, num_heads=16, dtype=HALF)
    spent = cost.of("fused", sizes)
    return spent.operations.matmul / machine.roofline(spent, dtype=HALF).seconds / 1e12


def draw(text):
    figure = new_figure(340)
    plot = axes(figure, 48, 44, 330, 244, xscale="log", yscale="log", xlim=(16, 512))
    fine = [round(16 * 2 ** (step / 8)) for step in range(41)]
    for machine, colour, dashes, marker in ((H100, FIRST, (), "o"), (B200, SECOND, (5, 2), "s")):
        line = plot.plot(fine, [peak_rate(machine, d) for d in fine], color=colour)
        if dashes:
            line[0].set_dashes(dashes)
        marks = [peak_rate(machine, d) for d in MARKED]
        plot.plot(MARKED, marks, marker, color=colour, linestyle="none")
        label(plot, (512, peak_rate(machine, 512)), machine.name, colour, offset=(-4, 12),
              side="right")  # fmt: skip
    label(plot, (17.5, 1450), text["exponential"], INK)
    label(plot, (290, 1500), text["compute"], INK, side="center")
    plot.set_ylim(200, 3200)
    ticks(plot, x=WIDTHS, y=[250, 500, 1000, 2000])
    plot.grid()
    name_axes(plot, text["x"], text["y"])
    return figure
