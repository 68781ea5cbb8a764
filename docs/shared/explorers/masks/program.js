// The program in Python that prints what is shown.
import { LAYERS, PATTERNS } from "./numbers.js";

/**
 * @param {import("../explorer.js").State} state
 * @param {ReturnType<typeof import("./numbers.js").numbers>} found
 */
export function program({ expression, n, m, block, layers }, { names, isOneRow, isSquare, query }) {
  const patterns = Object.keys(PATTERNS).filter((name) => names.has(name)).join(", ");
  return `from attnref import cost, masks
from attnref.masks import ${patterns}

n, m, block, layers, query = ${n}, ${m}, ${block}, ${layers}, ${query}
mask = (
    ${expression.trim()}
)
${isOneRow ? "mask = mask.expand((*mask.shape[:-2], n, mask.shape[-1]))  # its row counts for every query\n" : ""}\
print(mask.picture())

rows, columns = mask.shape[-2:]
print("allowed", mask.count(), "of", rows * columns)
summary = mask.block_summary(block).reshape(-1, -(-columns // block))
for kind, name in enumerate(("empty", "partial", "full")):
    print(name, int((summary == kind).sum()), "blocks")
computed = masks.block_layout(rows, columns, layout=summary > 0, block_size=block).count()
sizes = cost.Sizes(n=rows, m=columns, d_k=64, d_v=64)
operations = cost.of("plain", sizes).operations.matmul
print("computed", computed, "pairs")
print("operations", operations, "or", operations * computed // (rows * columns))

may = mask.dense().reshape(rows, columns)
print("nothing to see for", int((~may.any(1)).sum()))
print("query", query, "sees", int(may[query].sum()))
${isSquare ? `step = reached = may.float()
for layer in range(1, ${LAYERS + 1}):
    print("after layer", layer, "it hears from", int(reached[query].sum()))
    if layer == layers:
        print(f"pairs joined after layer {layers}: {int(reached.sum())}")
    reached = (reached @ step > 0).float()
` : ""}`;
}
