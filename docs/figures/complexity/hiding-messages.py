"""The share of the time in which a device computes, against the tokens that it holds."""

import torch

from attnref import cost
from docs.figures.drawing import (
    FIRST,
    SECOND,
    SMALL,
    SOFT,
    THIRD,
    axes,
    label,
    name_axes,
    new_figure,
    ticks,
)

TEXT = {
    "pt": {
        "x": "tokens por dispositivo",
        "y": "parte do tempo em que um dispositivo calcula",
        "mesh": "linhas\nde 4",
        "devices": "para 1 milhão de tokens, tantos dispositivos:",
    },
    "en": {
        "x": "tokens per device",
        "y": "share of the time in which a device computes",
        "mesh": "rows\nof 4",
        "devices": "for 1 million tokens, so many devices:",
    },
}

NVLINK, INFINIBAND = cost.Link(450e9, 3.4e-6), cost.Link(50e9, 14e-6)
ETHERNET = cost.Link(12.5e9, 14e-6)
RING, MILLION = 64, 2**20
TOKENS = [2 * round(2 ** (step / 8)) for step in range(50, 137)]  # from 152 to 262144, all even


def busy_share(tokens, link, heads):
    """Of a ring of 64, or of as many rings as there are groups of heads."""
    n = tokens * RING * heads
    widths = {"d_k": 128, "d_v": 128, "num_heads": 32, "num_kv_heads": 8}
    return cost.mesh_time(
        cost.Sizes(n=n, m=n, **widths, dtype=torch.bfloat16),
        ranks=RING * heads,
        heads=heads,
        ring_link=link,
        heads_link=NVLINK,
        operations_per_second=989e12,
        is_causal=True,
    ).busy


def draw(text):
    figure = new_figure(352)
    plot = axes(figure, 42, 40, 366, 222, xscale="log", xlim=(160, 2**18), ylim=(0, 1.02))
    for name, link, heads, colour, line, place, side in (
        ("NVLink", NVLINK, 1, FIRST, "-", (860, 0.62), "right"),
        ("mesh", INFINIBAND, 4, SECOND, (0, (1, 1.5)), (2300, 0.72), "left"),
        ("InfiniBand", INFINIBAND, 1, SECOND, "-", (7500, 0.65), "left"),
        ("Ethernet", ETHERNET, 1, THIRD, (0, (5, 2)), (37000, 0.74), "left"),
    ):
        plot.plot(
            TOKENS, [busy_share(tokens, link, heads) for tokens in TOKENS], color=colour, ls=line
        )
        label(plot, place, text.get(name, name), colour, side=side, halo=True)
    below = {"transform": plot.get_xaxis_transform(), "fontsize": SMALL, "va": "center"}
    plot.text(160, -0.27, text["devices"], color=SOFT, **below)
    for devices in (8, 64, 1024, 4096):
        tokens = MILLION // devices
        plot.axvline(tokens, color=SOFT, linewidth=0.8, dashes=(1, 3))
        plot.text(tokens, -0.35, str(devices), color=SOFT, ha="center", **below)
    numbers = {MILLION // devices: str(MILLION // devices) for devices in (8, 64, 1024, 4096)}
    ticks(plot, x=numbers, y=[0, 0.25, 0.5, 0.75, 1])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
