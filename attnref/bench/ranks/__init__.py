"""Attention across ranks, measured: the benchmark starts the processes and times the slowest.

In the order of a measurement: ``plan`` (how many ranks, how long a sequence), ``cases`` (what each
rank calls), ``processes`` and ``worker`` (who starts them, and what one of them does), ``runner``
(all of it, in turn), ``table`` (how it is shown in a terminal).
"""
