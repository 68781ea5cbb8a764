"""What goes wrong in split_heads."""


def dealt_out_in_turn(tensor, num_heads):
    return tensor.unflatten(-1, (-1, num_heads)).movedim(-1, -3)


def tokens_before_heads(tensor, num_heads):
    return tensor.unflatten(-1, (num_heads, -1))


def straight_to_the_shape(tensor, num_heads):
    *lead, n, width = tensor.shape
    return tensor.reshape(*lead, num_heads, n, width // num_heads)


def counted_from_the_front(tensor, num_heads):
    return tensor.unflatten(-1, (num_heads, -1)).transpose(0, 1)


WRONG = {
    dealt_out_in_turn: "blocks_of_columns",
    tokens_before_heads: "blocks_of_columns: shape",
    straight_to_the_shape: "tokens",
    counted_from_the_front: "batch: shape",
}
