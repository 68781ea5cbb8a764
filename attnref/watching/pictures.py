"""Weights as a small PNG, and numbers of heads as an SVG, both to be part of a page."""

import base64
import struct
import zlib
from collections.abc import Mapping
from html import escape

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d, pad

LEVELS = 16
_WHITE, _MIDDLE, _DARK = (255, 255, 255), (44, 120, 184), (11, 53, 88)
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 334.0, 28.0, 178.0  # of the field of a chart


def levels(maps: Tensor, side: int) -> Tensor:
    """Maps ``(h, r, c)`` in at most so many rows and columns, each row in shares of its largest."""
    sizes = (min(maps.shape[1], side), min(maps.shape[2], side))
    small = adaptive_max_pool2d(maps.nan_to_num(0.0), sizes)
    share = small / small.amax(-1, keepdim=True).clamp(min=1e-30)
    return ((LEVELS - 1) * share.clamp(0, 1)).round().to(torch.uint8)


def png(fields: Tensor) -> str:
    """Numbers below ``LEVELS``, ``(r, c)``, in one hue from white to dark, as a data URI."""
    height, width = fields.shape
    even = pad(fields, (0, width % 2))  # two fields are one byte
    packed = pad(LEVELS * even[:, ::2] + even[:, 1::2], (1, 0))  # 0 before a row: no filter
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0),
        b"PLTE": _PALETTE,
        b"IDAT": zlib.compress(bytes(packed.flatten().tolist()), 9),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))
        for kind, part in parts.items()
    )
    coded = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return f"data:image/png;base64,{coded.decode()}"


def _palette() -> bytes:
    middle = 9
    ramp = [(_WHITE, _MIDDLE, each / middle) for each in range(middle)]
    rest = LEVELS - 1 - middle
    ramp += [(_MIDDLE, _DARK, each / rest) for each in range(rest + 1)]
    return bytes(
        round(a + part * (b - a)) for one, two, part in ramp for a, b in zip(one, two, strict=True)
    )


_PALETTE = _palette()


def chart(heads: Mapping[int, Tensor], count: int, up: str, across: str) -> str:
    """A dot for each head between 0 and 1, above the number of its place; a line of their means.

    Args:
        heads: by the number of the place, ``(h,)``.
        count: how many places there are.
        up, across: what the axes are called.
    """

    def x(place: int) -> float:
        return _LEFT + (place + 0.5) / count * (_RIGHT - _LEFT)

    def y(share: float) -> float:
        return _BOTTOM - share * (_BOTTOM - _TOP)

    dots = "".join(f"M{x(place):.1f} {y(each):.1f}h0" for place, of in heads.items() for each in of)
    means = "L".join(f"{x(place):.1f} {y(float(of.mean())):.1f}" for place, of in heads.items())
    grid = "".join(f"M{_LEFT} {y(part / 4):.1f}H{_RIGHT}" for part in range(5))
    text = [f'<text x="0" y="12">{escape(up)}</text>']
    text += [
        f'<text x="{_LEFT - 6}" y="{y(part / 4) + 4:.1f}" text-anchor="end">{part / 4:g}</text>'
        for part in range(5)
    ]
    text += [
        f'<text x="{x(place):.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{place}</text>'
        for place in range(0, count, 1 + (count - 1) // 6)
    ]
    text.append(f'<text x="{_RIGHT}" y="{_BOTTOM + 34}" text-anchor="end">{escape(across)}</text>')
    return (
        f'<svg viewBox="0 0 340 {_BOTTOM + 42:.0f}" aria-hidden="true"><path class="grid" '
        f'd="{grid}"/><path class="dots" d="{dots}"/><path class="means" d="M{means}h0"/>'
        f"{''.join(text)}</svg>"
    )
