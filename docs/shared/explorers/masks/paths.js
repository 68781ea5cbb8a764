// Paths around cells, in whole cells: a few elements draw a table of any pattern.

/**
 * The first and the last place of each run.
 * @param {number} length  @param {(j: number) => unknown} isIn
 */
function spans(length, isIn) {
  /** @type {[number, number][]} */
  const found = [];
  for (let j = 0, first = -1; j <= length; j++) {
    const isOn = j < length && isIn(j);
    if (isOn && first < 0) first = j;
    if (isOn || first < 0) continue;
    found.push([first, j - 1]);
    first = -1;
  }
  return found;
}

/**
 * Around the runs, or, with an inset of 1, around their middle thirds, in thirds of a cell.
 * @param {number} rows  @param {number} columns  @param {(i: number, j: number) => unknown} isIn
 * @param {0 | 1} [inset]
 */
export function runs(rows, columns, isIn, inset = 0) {
  const size = inset ? 3 : 1;
  let path = "";
  for (let i = 0; i < rows; i++) {
    for (const [first, last] of spans(columns, (j) => isIn(i, j))) {
      const width = size * (last + 1 - first) - 2 * inset;
      path += `M${size * first + inset} ${size * i + inset}h${width}v1h-${width}z`;
    }
  }
  return path;
}

/** Between the cells.  @param {number} rows  @param {number} columns */
export function lines(rows, columns) {
  let path = "";
  for (let i = 1; i < rows; i++) path += `M0 ${i}H${columns}`;
  for (let j = 1; j < columns; j++) path += `M${j} 0V${rows}`;
  return path;
}

/** Keys in words: 0, 2–4.  @param {ArrayLike<number>} row */
export function ranges(row) {
  const parts = spans(row.length, (j) => row[j]);
  return parts.map(([a, b]) => (a === b ? a : `${a}${b - a > 1 ? "–" : ", "}${b}`)).join(", ");
}
