"""How measured numbers are written."""


def milliseconds(seconds: float) -> str:
    """As :func:`three_digits`.

    Examples:
        >>> milliseconds(0.0123456), milliseconds(1.5)
        ('12.3', '1500')
    """
    return three_digits(1000 * seconds)


def three_digits(number: float) -> str:
    """The first three digits of a positive number, all before the point where there are more.

    Examples:
        >>> three_digits(0.0020971), three_digits(1234.5)
        ('0.0021', '1234')
    """
    return f"{number:.0f}" if number >= 1000 else f"{number:.3g}"
