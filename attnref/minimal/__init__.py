"""Each method on one screen: what you read first, and what you copy.

One file a method, in plain PyTorch: nothing is imported but torch and math. Each states what it
leaves out, compared with the whole function of the same name in :mod:`attnref`, and where that
bites; the tests hold it to that function, values and gradients.
"""
