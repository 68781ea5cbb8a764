r"""Scale factors: the number that multiplies :math:`q\cdot k` before the softmax.

Each function takes the width of a head, :math:`d_k`, and returns a plain ``float`` to be
passed as ``scale``. For independent components of mean 0 and variance 1 the variance of
:math:`q\cdot k` is :math:`d_k`, so a factor :math:`c` leaves a score variance of
:math:`c^2 d_k`: that is what tells the factors apart.
"""


def unscaled(head_dim: int) -> float:
    r"""No scaling, :math:`c=1`: the score variance stays :math:`d_k`.

    T5 and GPT-Neo run so; T5 puts the missing factor into the initialisation of the
    query projection (Raffel et al. 2019, arXiv 1910.10683).

    >>> unscaled(64)
    1.0
    """
    _check_head_dim(head_dim)
    return 1.0


def inverse_sqrt(head_dim: int) -> float:
    r"""The usual factor, :math:`c=1/\sqrt{d_k}`: the score variance becomes 1 for every width.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1.

    >>> inverse_sqrt(64)
    0.125
    """
    _check_head_dim(head_dim)
    return float(head_dim**-0.5)


def inverse(head_dim: int) -> float:
    r"""The factor of maximal update parametrisation, :math:`c=1/d_k`: variance :math:`1/d_k`.

    It keeps the scores independent of the width once training has correlated queries with
    keys, and starts nearly uniform. Source: Yang et al. 2022, arXiv 2203.03466.

    >>> inverse(64)
    0.015625
    """
    _check_head_dim(head_dim)
    return 1.0 / head_dim


def _check_head_dim(head_dim: int) -> None:
    if isinstance(head_dim, bool) or not isinstance(head_dim, int) or head_dim < 1:
        raise ValueError(
            f"head_dim: expected a positive integer, got {head_dim!r}. It is d_k, the size of "
            "one query or key: query.shape[-1]."
        )
