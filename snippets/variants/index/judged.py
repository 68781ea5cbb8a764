"""What the checker says of methods, called so that they are the definition."""

# --8<-- [start:example]
from attnref import check, variants

print("method          pass  not claimed  otherwise")
for name, method in variants.records().items():
    attention = method.as_definition()
    if attention is None:  # it never is the definition
        continue
    said = {}
    for result in check(attention, limit=None).results:
        said.setdefault(result.verdict.value, []).append(result.property)
    right, unasked = (len(said.pop(x, [])) for x in ("pass", "not claimed"))
    rest = (
        f"{verdict}: {', '.join(found)}" for verdict, found in said.items()
    )
    print(f"{name:14}  {right:4}  {unasked:11}  {'; '.join(rest)}")
# --8<-- [end:example]
