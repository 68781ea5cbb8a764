"""The checker: what is true of attention, asked of anybody's function.

Its two questions are called from the top, :func:`attnref.check` and :func:`attnref.check_steps`;
here is what they know and what they answer.

Examples:
    >>> from attnref import check, scaled_dot_product_attention
    >>> check(scaled_dot_product_attention, only=["row_sums", "causality"]).passed()
    True
"""

from attnref.conformance.checker import check as check
from attnref.conformance.decoding import check_steps as check_steps
from attnref.conformance.properties import PROPERTIES
from attnref.conformance.report import Report
from attnref.conformance.result import Result
from attnref.conformance.verdict import Counterexample, Verdict

__all__ = [
    "PROPERTIES",
    "Counterexample",
    "Report",
    "Result",
    "Verdict",
]
