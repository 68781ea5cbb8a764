// Reads an expression of masks as Python does: calls of patterns, joined by & | ~ and parentheses.
import { Refused } from "../explorer.js";

/**
 * A rule and its shape; a mask of one row has that row for every query.
 * @typedef {{ rows: number, columns: number, may: (i: number, j: number) => boolean }} Mask
 *
 * An argument, where it is written and what it is.
 * @typedef {"integer" | "list" | "truth" | "text" | "none"} Kind
 * @typedef {{ name: string, at: number, kind: Kind, value: any }} Argument
 *
 * The names of the arguments: those after * go by name alone, and those with ? may be left out.
 * @typedef {{ takes: string[], make: (given: Record<string, Argument>) => Mask }} Pattern
 *
 * `outer` is the sign that joins the whole, and `names` are those of sizes and patterns.
 * @typedef {{ mask: Mask, outer: string, names: Set<string> }} Reading
 */

/** @typedef {{ kind: string, text: string, at: number }} Token */

const SPACE = "[ \\t\\r\\n]*", NAME = "[A-Za-z_]\\w*", INTEGER = "(?:0|[1-9]\\d{0,5})(?!\\w)";
const TEXT = `"[\\w-]*"|'[\\w-]*'`, SIGN = "[&|~()[\\],=.-]";
const TOKEN = new RegExp(
  `${SPACE}(?:(?<name>${NAME})|(?<integer>${INTEGER})|(?<text>${TEXT})|(?<sign>${SIGN})|(?<end>$))`, "y");
/** @type {Record<string, [Kind, any]>} */
const CONSTANTS = { True: ["truth", true], False: ["truth", false], None: ["none", null] };

/** @param {string} text  @returns {Token[]} the last of kind "end" */
function tokens(text) {
  const found = [];
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (!match) {
      at += (/^[ \t\r\n]*/.exec(text.slice(at)) ?? [""])[0].length;
      throw new Refused("bad-sign", { at: at + 1, found: (/^(\w+|.)/u.exec(text.slice(at)) ?? [""])[0] });
    }
    at = TOKEN.lastIndex;
    for (const [kind, word] of Object.entries(match.groups ?? {})) {
      if (word !== undefined) found.push({ kind, text: word, at: at - word.length + 1 });
    }
    if (match.groups?.end !== undefined) return found;
  }
}

/**
 * @param {string} text  @param {Record<string, Pattern>} patterns  @param {Record<string, number>} sizes by name
 * @returns {Reading}
 */
export function read(text, patterns, sizes) {
  const words = tokens(text);
  /** @type {Set<string>} */
  const names = new Set();
  let place = 0;
  const next = () => words[place];
  /** @param {string} sign */
  const skips = (sign) => next().kind === "sign" && next().text === sign && Boolean(++place);
  /** @param {string} wanted  @returns {never} */
  const refuse = (wanted) => {
    const { kind, text: found, at } = next();
    if (["and", "or", "not"].includes(found)) throw new Refused("python-word", { at, found });
    throw new Refused(kind === "end" ? "ends-early" : "expected", { at, found, wanted });
  };

  /** @param {string} sign  @param {() => { mask: Mask, outer: string }} operand */
  function joined(sign, operand) {
    let { mask, outer } = operand();
    for (;;) {
      const { at } = next();
      if (!skips(sign)) return { mask, outer };
      mask = joinedBy(sign, mask, operand().mask, at);
      outer = sign;
    }
  }
  const whole = () => joined("|", () => joined("&", single));

  /** @returns {{ mask: Mask, outer: string }} */
  function single() {
    if (skips("~")) {
      const { mask } = single();
      return { mask: { ...mask, may: (i, j) => !mask.may(i, j) }, outer: "~" };
    }
    if (skips("(")) {
      const { mask } = whole();
      if (!skips(")")) refuse("& | )");
      return { mask, outer: "" };
    }
    return { mask: called(), outer: "" };
  }

  function called() {
    if (next().kind !== "name") refuse("causal(n) ~ (");
    if (next().text === "masks") {
      place++;
      if (!skips(".")) refuse(".");
    }
    const { text: name, at, kind } = next();
    if (kind !== "name" || ["and", "or", "not"].includes(name)) refuse("causal(n) ~ (");
    if (!Object.hasOwn(patterns, name)) {
      throw new Refused("unknown-pattern", { at, found: name, known: Object.keys(patterns).join(", ") });
    }
    names.add(name);
    place++;
    if (!skips("(")) refuse("(");
    return patterns[name].make(given(name, at));
  }

  /** @param {string} pattern  @param {number} start */
  function given(pattern, start) {
    const { takes } = patterns[pattern], star = takes.indexOf("*");
    const all = takes.filter((name) => name !== "*").map((name) => name.replace("?", ""));
    const ordered = star < 0 ? all : all.slice(0, star);
    /** @type {Record<string, Argument>} */
    const found = {};
    let count = 0, isNamed = false;
    while (!skips(")")) {
      const { at } = next();
      let name = ordered[count];
      if (next().kind === "name" && words[place + 1].text === "=") {
        name = next().text;
        if (!all.includes(name)) {
          throw new Refused("unknown-argument", { at, found: name, pattern, known: all.join(", ") });
        }
        if (name in found) throw new Refused("argument-twice", { at, name });
        isNamed = true;
        place += 2;
      } else if (isNamed || count++ >= ordered.length) {
        const known = all.filter((one) => !(one in found)).join(", ");
        throw new Refused("argument-by-name", { at, pattern, known });
      }
      found[name] = { ...argument(), name };
      if (!skips(",") && !(next().kind === "sign" && next().text === ")")) refuse(", )");
    }
    for (const name of takes) {
      if (!/[?*]/.test(name) && !(name in found)) throw new Refused("argument-missing", { at: start, pattern, name });
    }
    return found;
  }

  /** @returns {Omit<Argument, "name">} */
  function argument() {
    const { kind, text: word, at } = next();
    if (skips("[")) {
      const value = [];
      while (!skips("]")) {
        value.push(integer());
        if (!skips(",") && !(next().kind === "sign" && next().text === "]")) refuse(", ]");
      }
      return { kind: "list", value, at };
    }
    if (kind === "text") return place++, { kind, value: word.slice(1, -1), at };
    if (Object.hasOwn(CONSTANTS, word)) return place++, { kind: CONSTANTS[word][0], value: CONSTANTS[word][1], at };
    return { kind: "integer", value: integer(), at };
  }

  function integer() {
    const sign = skips("-") ? -1 : 1, { kind, text: word } = next();
    if (kind === "integer") return place++, sign * Number(word);
    if (!Object.hasOwn(sizes, word)) refuse(`4 ${Object.keys(sizes).join(" ")}`);
    names.add(word);
    place++;
    return sign * sizes[word];
  }

  const { mask, outer } = whole();
  if (next().kind !== "end") refuse("& |");
  return { mask, outer, names };
}

/** @param {Mask} mask */
const shape = ({ rows, columns }) => `${rows} × ${columns}`;

/** @param {string} sign  @param {Mask} one  @param {Mask} other  @param {number} at  @returns {Mask} */
function joinedBy(sign, one, other, at) {
  const isOne = one.rows === 1 || other.rows === 1;
  if (one.columns !== other.columns || (one.rows !== other.rows && !isOne)) {
    throw new Refused("shapes-differ", { at, sign, one: shape(one), other: shape(other) });
  }
  const { columns } = one, rows = Math.max(one.rows, other.rows);
  if (sign === "&") return { rows, columns, may: (i, j) => one.may(i, j) && other.may(i, j) };
  return { rows, columns, may: (i, j) => one.may(i, j) || other.may(i, j) };
}
