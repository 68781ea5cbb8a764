"""What error an answer has that looks at no score at all."""

# --8<-- [start:example]
import math

import torch
from attnref.bench.problems import TASKS, Shape, exact_output, relative_error

print("length  error of the mean of all values")
for n in (256, 1024, 4096):
    shape = Shape(n, 8, 64, torch.float32, torch.device("cpu"), seed=0)
    problem = TASKS["dense"].make(shape)
    mean = problem.value.mean(-2, keepdim=True)  # (1, heads, 1, d)
    answer = mean.expand_as(problem.query)  # the same for each query
    print(f"{n:6}  {relative_error(answer, exact_output(problem)):.3f}")
print(f"expected for long sequences: {math.sqrt(1 - 1 / math.e):.3f}")
# --8<-- [end:example]
