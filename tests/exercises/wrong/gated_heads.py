"""What goes wrong in gated_heads."""

import torch


def cut(numbers, answers):
    return torch.unflatten(numbers, -1, (answers.shape[-3], -1)).transpose(-3, -2)


def joined(heads):
    return heads.transpose(-3, -2).flatten(-2)


def no_gate(inputs, answers, gate_weight, out_weight):
    return joined(answers) @ out_weight


def tanh_gate(inputs, answers, gate_weight, out_weight):
    gates = torch.tanh(inputs @ gate_weight)
    return joined(cut(gates, answers) * answers) @ out_weight


def softmax_gate(inputs, answers, gate_weight, out_weight):
    gates = torch.softmax(inputs @ gate_weight, -1)
    return joined(cut(gates, answers) * answers) @ out_weight


def without_its_sigmoid(inputs, answers, gate_weight, out_weight):
    return joined(cut(inputs @ gate_weight, answers) * answers) @ out_weight


def after_the_output(inputs, answers, gate_weight, out_weight):
    gates = torch.sigmoid(inputs @ gate_weight)
    projected = joined(answers) @ out_weight
    return gates[..., : projected.shape[-1]] * projected


def one_gate_per_head(inputs, answers, gate_weight, out_weight):
    gates = torch.sigmoid(cut(inputs @ gate_weight, answers).mean(-1, keepdim=True))
    return joined(gates * answers) @ out_weight


def reshaped_at_once(inputs, answers, gate_weight, out_weight):
    gates = torch.sigmoid(inputs @ gate_weight).reshape(answers.shape)
    return joined(gates * answers) @ out_weight


def joined_at_once(inputs, answers, gate_weight, out_weight):
    gates = cut(torch.sigmoid(inputs @ gate_weight), answers)
    *lead, heads, n, width = answers.shape
    return (gates * answers).reshape(*lead, n, heads * width) @ out_weight


def without_a_batch(inputs, answers, gate_weight, out_weight):
    heads, n, width = answers.shape
    gates = torch.sigmoid(inputs @ gate_weight).view(n, heads, width).transpose(0, 1)
    return joined(gates * answers) @ out_weight


WRONG = {
    no_gate: "gate",
    tanh_gate: "gate",
    softmax_gate: "gate",
    without_its_sigmoid: "gate",
    after_the_output: "before_the_output",
    one_gate_per_head: "before_the_output",
    reshaped_at_once: "heads_in_their_place",
    joined_at_once: "heads_in_their_place",
    without_a_batch: "batch: ValueError",
}
