"""The checker: what is true of attention, asked of anybody's function.

Examples:
    >>> from attnref import scaled_dot_product_attention
    >>> check(scaled_dot_product_attention, only=["row_sums", "causality"]).passed()
    True
"""

from attnref.conformance.checker import check
from attnref.conformance.decoding import check_steps
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
    "check",
    "check_steps",
]
