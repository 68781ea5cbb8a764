// What helps to write an expression: patterns to join to it, and a slider for the number at the cursor.
import { filled, part } from "../explorer.js";
import { evaluated } from "./numbers.js";

/** @typedef {import("../explorer.js").State} State */

/** @param {HTMLElement} root  @param {() => State} state */
export function writing(root, state) {
  const written = /** @type {HTMLTextAreaElement} */ (part(root, "textarea"));
  const chosen = /** @type {HTMLSelectElement} */ (part(root, ".masks-join select"));
  const slider = /** @type {HTMLInputElement} */ (part(root, ".masks-number input"));
  const name = part(root, ".masks-number span");
  let cursor = 0;

  /** As if it had been typed.  @param {string} text */
  function type(text) {
    written.value = text;
    written.dispatchEvent(new Event("input", { bubbles: true }));
  }

  for (const button of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-join]"))) {
    button.addEventListener("click", () => {
      const { expression, n, m } = state(), sign = button.dataset.join ?? "";
      const hasBoth = sign !== "" && evaluated(expression, n, m).names.has("m"), third = Math.floor(n / 3);
      const pattern = filled(chosen.value, {
        third, rest: n - 2 * third, most: Math.ceil(0.75 * (hasBoth ? m : n)),
        sizes: hasBoth ? 'n, m, alignment="bottom-right"' : "n", keys: hasBoth ? "m" : "n",
      });
      type(sign === "~" ? opposite(expression, n, m)
        : sign ? [expression, pattern].map((one) => (sign === "&" ? wrapped(one, n, m, "|") : one)).join(` ${sign} `)
        : pattern);
    });
  }

  /** The numbers that can be slid, without those after a minus. */
  const numbers = () => [...written.value.matchAll(/(?<![\w-])\d+(?!\w)/g)];

  /** Shows the number nearest to the cursor. */
  function aim() {
    const found = numbers().reduce((/** @type {RegExpExecArray | null} */ best, one) =>
      (!best || distance(one, cursor) < distance(best, cursor) ? one : best), null);
    slider.disabled = !found;
    name.textContent = "–";
    if (!found) return null;
    const before = /(\w+)\s*[=(][^=()]*$/.exec(written.value.slice(0, found.index));
    slider.value = found[0];
    name.textContent = `${before?.[1] ?? ""}=${found[0]}`;
    return found;
  }

  slider.addEventListener("input", () => {
    const wanted = Number(slider.value), found = aim(), { n, m } = state();
    if (!found) return;
    const from = Number(found[0]), step = Math.sign(wanted - from), text = written.value;
    const replaced = (/** @type {number} */ number) =>
      `${text.slice(0, found.index)}${number}${text.slice(found.index + found[0].length)}`;
    let number = wanted; // or the nearest that makes a mask: a window of two sides is odd
    while (number !== from && !isMask(replaced(number), n, m)) number -= step;
    if (number !== from) type(replaced(number));
    cursor = found.index;
    aim();
  });
  for (const event of ["input", "keyup", "click", "focus"]) {
    written.addEventListener(event, ({ isTrusted }) => {
      if (isTrusted) cursor = written.selectionStart;
      aim();
    });
  }
  const later = () => requestAnimationFrame(aim); // when the field shows the state
  addEventListener("popstate", later);
  root.addEventListener("click", later);
  aim();
}

/** From a number to the cursor, in characters.  @param {RegExpExecArray} number  @param {number} cursor */
const distance = ({ index, 0: { length } }, cursor) => Math.max(index - cursor, cursor - index - length, 0);

/** @param {string} expression  @param {number} n  @param {number} m */
function isMask(expression, n, m) {
  try {
    return Boolean(evaluated(expression, n, m));
  } catch {
    return false;
  }
}

/**
 * In parentheses where one of these signs joins it.
 * @param {string} text  @param {number} n  @param {number} m  @param {string} signs
 */
function wrapped(text, n, m, signs) {
  let outer = "";
  try {
    ({ outer } = evaluated(text, n, m));
  } catch { /* it is written as it is, and what is wrong with it is said */ }
  return outer && signs.includes(outer) ? `(${text})` : text;
}

/** @param {string} text  @param {number} n  @param {number} m */
function opposite(text, n, m) {
  return evaluated(text, n, m).outer === "~" ? text.trim().slice(1).trim() : `~${wrapped(text, n, m, "&|")}`;
}
