"""What is counted: operations, bytes moved, and the most memory held at one time."""

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Operations:
    """How much arithmetic: in matrix products, elsewhere, and in exponentials and logarithms.

    Examples:
        >>> (Operations(matmul=10) + Operations(elementwise=2, exponentials=1) * 3).total
        19
    """

    matmul: int = 0
    elementwise: int = 0
    exponentials: int = 0

    @property
    def total(self) -> int:
        return self.matmul + self.elementwise + self.exponentials

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: int) -> "Operations":
        return Operations(*(times * count for count in astuple(self)))


@dataclass(frozen=True)
class Cost:
    """What a method spends: arithmetic, bytes moved, and the most memory held at one time.

    ``a + b`` is a and then b, ``a * 12`` is a twelve times in a row: amounts add up, of the
    peaks the highest stays, since what is kept from one to the next belongs to the later one.

    Examples:
        >>> cost = Cost(Operations(matmul=8), bytes_read=6, bytes_written=2, peak_bytes=5) * 2
        >>> cost.operations.total, cost.bytes_moved, cost.peak_bytes, cost.intensity
        (16, 16, 5, 1.0)
    """

    operations: Operations = Operations()
    bytes_read: int = 0
    bytes_written: int = 0
    peak_bytes: int = 0

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Operations for each byte moved."""
        return self.operations.total / self.bytes_moved

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.operations + other.operations,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            max(self.peak_bytes, other.peak_bytes),
        )

    def __mul__(self, times: int) -> "Cost":
        return Cost(
            self.operations * times,
            self.bytes_read * times,
            self.bytes_written * times,
            self.peak_bytes,
        )
