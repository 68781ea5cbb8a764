// All words as queries at once: the matrices of scores, weights and contexts.
import { html, set } from "../draw.js";

/** @typedef {import("../explorer.js").State} State */
/** @typedef {import("./numbers.js").Attention} Attention */

const KINDS = ["scaled", "weight", "context"];

/** @param {Record<string, string>} texts */
export function matrices(texts) {
  const tables = KINDS.map((kind) => html("table", { class: `attention-matrix attention-${kind}` }));
  const element = html("div", { class: "attention-matrices" }, ...tables, html("p", { class: "attention-help" }, texts["matrix-help"]));
  let built = "";

  /** @param {string[]} words */
  function build(words) {
    built = words.join(" ");
    for (const [place, kind] of KINDS.entries()) {
      const columns = kind === "context" ? ["1", "2", "3"] : words;
      const title = ["matrix-scores", "matrix-weights", "matrix-contexts"][place];
      const [before, after] = texts[title].split("{factor}");
      const caption = html("caption", {}, before);
      if (after !== undefined) caption.append(html("span", { "data-name": "factor", "data-digits": 2 }), after);
      tables[place].style.setProperty("--columns", String(columns.length));
      tables[place].replaceChildren(caption,
        html("thead", {}, html("tr", {}, html("td"), ...columns.map((word) => html("th", { scope: "col" }, html("span", {}, word))))),
        html("tbody", {}, ...words.map((word, i) => html("tr", { "data-query": i },
          html("th", { scope: "row" }, word),
          ...columns.map((_, j) => html("td", kind === "context" ? {} : { "data-key": j },
            html("span", { "data-name": `${kind}-${i}-${j}`, "data-digits": 2 })))))));
    }
  }

  /** @param {State} state  @param {Attention} computed */
  function draw({ words, query, key }, { scaled, weights, contexts, allowed }) {
    if (built !== words.join(" ")) build(words);
    const largest = Math.max(...scaled.flat().map(Math.abs));
    const digits = Math.max(0, (words.length > 6 ? 1 : 2) - Math.floor(Math.log10(Math.max(1, largest))));
    for (const [place, rows] of [scaled, weights, contexts].entries()) {
      for (const [i, row] of [...tables[place].tBodies[0].rows].entries()) {
        row.toggleAttribute("data-asks", i === query);
        for (const [j, value] of rows[i].entries()) {
          const cell = row.cells[j + 1];
          set(cell.children[0], { "data-digits": digitsOf(value, place ? 2 : digits) });
          if (place === 1) set(cell, { style: `--weight:${value.toFixed(4)}` });
          if (place === 2) continue;
          cell.toggleAttribute("data-looked-at", j === key);
          cell.toggleAttribute("data-masked", !allowed[i][j]);
        }
      }
    }
  }

  return { element, draw };
}

/** One digit is all that a cell has room for where its number is tiny. @param {number} value  @param {number} digits */
function digitsOf(value, digits) {
  return value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits ? 0 : digits;
}
