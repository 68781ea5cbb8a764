"""Compares what is recorded with what is computed now, to the last digit that is shown."""

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

from book.page import Problem
from book.stage.numbers import NUMBER

TAG = re.compile(r"<[^>]*>")


def output_problems(snippet: Path, printed: str) -> list[Problem]:
    recorded = snippet.with_suffix(".out")
    if not recorded.exists():
        return [Problem(recorded, 1, "no recorded output; run make record")]
    return [
        Problem(recorded, line, f"recorded {was!r}, printed {now!r}; run make record")
        for line, was, now in differences(recorded.read_text(encoding="utf-8"), printed)
    ]


def redrawn_problems(recorded: Path, drawn: str) -> list[Problem]:
    """Where a recorded drawing is not what its script draws now."""
    if not recorded.exists():
        return [Problem(recorded, 1, "no recorded drawing; run make record")]
    different = differences(recorded.read_text(encoding="utf-8"), drawn, drawn=True)
    return [
        Problem(recorded, line, f"recorded {was}, drawn {now}; run make record")
        for line, was, now in itertools.islice(different, 1)
    ]


def differences(recorded: str, now: str, *, drawn: bool = False) -> Iterator[tuple[int, str, str]]:
    """Lines of an output, or of a drawing, that differ by more than rounding."""
    same = _same_element if drawn else _same_line
    for number, (was, is_now) in enumerate(_pairs(recorded.split("\n"), now.split("\n")), 1):
        if not same(was, is_now):
            yield number, was, is_now


def same_values(was: object, now: object) -> bool:
    """What JSON holds, numbers but for the last bits, in which processors differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [*was] == [*now] and all(same_values(was[key], now[key]) for key in was)
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(same_values, was, now))
    if isinstance(was, float) and isinstance(now, float):
        return math.isclose(was, now, rel_tol=1e-9, abs_tol=1e-12)
    return was == now


def _pairs(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    return itertools.zip_longest(one, other, fillvalue="(nothing)")


def _same_line(was: str, now: str) -> bool:
    if NUMBER.sub("#", was).split() != NUMBER.sub("#", now).split():
        return False
    return all(
        _same_number(a, b) for a, b in zip(NUMBER.findall(was), NUMBER.findall(now), strict=True)
    )


def _same_number(was: str, now: str) -> bool:
    """Equal as printed, or one unit of the last printed digit apart.

    Two processors may round a value that lies near the middle of two printed ones differently;
    a whole number, which was counted and not rounded, must be the same.
    """
    if was == now:
        return True
    mantissa, _, exponent = was.partition("e")
    if "." not in mantissa:
        return False
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)
    return math.isclose(float(was), float(now), rel_tol=0, abs_tol=unit * (1 + 1e-9))


def _same_element(was: str, now: str) -> bool:
    """Text as in outputs; places within 0.01, one unit of the digit that they are rounded to.

    Another processor may err in the last bits of what is computed, which moves nothing by a
    hundredth of a pixel, but may round a number that lies near the middle the other way.
    """
    tags = list(zip(TAG.findall(was), TAG.findall(now), strict=False))
    words = list(zip(TAG.split(was), TAG.split(now), strict=False))
    return (
        len(TAG.findall(was)) == len(TAG.findall(now))
        and all(NUMBER.sub("#", a) == NUMBER.sub("#", b) for a, b in tags)
        and all(
            abs(float(a) - float(b)) <= 0.01 + 1e-9
            for pair in tags
            for a, b in zip(*map(NUMBER.findall, pair), strict=True)
        )
        and all(_same_line(a, b) for a, b in words)
    )
