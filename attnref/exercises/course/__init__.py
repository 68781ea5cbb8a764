"""The exercises in the order in which they are best taken, by topic.

Each has a folder of its name here: the grader (``__init__.py``), the solution, and what is said
in each language. The learner's file and the function in it have that name too.
"""

COURSE = {
    "words": ("dot_scores", "sum_normalise", "stable_softmax", "context_vector"),
    "formula": ("matrix_attention", "scaled_attention"),
    "masks": (
        "causal_mask",
        "sliding_window_mask",
        "padding_mask",
        "masked_attention",
        "biased_attention",
        "safe_softmax",
        "sealed_attention",
        "padded_batch",
    ),
    "heads": ("split_heads", "multihead_attention", "grouped_query_attention", "decode_step"),
    "positions": ("sinusoidal", "rotary", "alibi_bias"),
    "blocks": ("online_softmax", "merge_parts", "blockwise_attention"),
    "training": ("dropout_weights", "softmax_backward", "attention_backward", "entropy"),
    "linear": ("linear_attention", "linear_attention_step", "delta_rule_step"),
    "today": (
        "absorbed_step",
        "sink_softmax",
        "tree_mask",
        "gated_heads",
        "differential_attention",
        "bias_gradient",
        "paged_step",
        "chosen_blocks",
        "quantize_groups",
        "lazy_rescaling",
        "zigzag_positions",
    ),
}
