// What all explorers share: one state on which the controls, the picture, the address and what is
// said to a screen reader agree.
import { fromAddress, share, toAddress } from "./address.js";

/** @typedef {Record<string, any>} State */

/** @typedef {(text: string, about: Element | null) => void} Warn what is wrong, beside what it is about */

/**
 * What a view says of a state: a sentence that says what came out, and a program in Python.
 * @typedef {{ said: string, program?: string }} Told
 */

const OFTEN = 100; // milliseconds between two writings of numbers in a drag

/** Input that cannot be shown; its message names what, where and how to fix it. */
export class Refused extends Error {
  /** @param {string} key of a text  @param {Record<string, unknown>} values in its braces */
  constructor(key, values) {
    super(key);
    this.key = key;
    this.values = values;
  }
}

/**
 * Joins an explorer's parts.
 *
 * A control is an element with a `name`, which is the name of its value in the state. `check` gets a
 * whole state and throws `Refused` where it cannot be shown. `draw` shows it as a picture, once a frame
 * at most; `tell` writes its numbers and words, which cost more, and are written ten times a second
 * while a pointer is held down. What is given back changes the state, as a control would.
 *
 * What is still to come is in `data-due` of the root: "numbers", or "words", said and noted at rest.
 *
 * @param {HTMLElement} root
 * @param {{ check: (state: State) => void, draw: (state: State) => void, tell: (state: State) => Told }} view
 * @returns {{ state: () => State, change: (part: State) => void, warn: Warn }}
 */
export function explorer(root, { check, draw, tell }) {
  const name = root.dataset.explorer ?? "";
  const first = /** @type {State} */ (JSON.parse(root.dataset.state ?? "{}"));
  const texts = textsOf(root);
  const problem = part(root, ".explorer-problem"), said = part(root, ".explorer-said");
  const code = root.querySelector(".explorer-program code");
  const controls = /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll("[name]"));
  let state = first, frame = 0, timer = 0, program = "", isHeld = false, told = 0, next = 0;
  let source = /** @type {Element | null} */ (null); // of the last input

  /** @param {State} given  @param {boolean} isNew whether to say so, and to note it in the address */
  function accept(given, isNew) {
    check(given);
    state = given;
    if (problem.textContent) {
      warn("", null);
      for (const wrong of root.querySelectorAll("[aria-invalid]")) wrong.removeAttribute("aria-invalid");
    }
    soon(isNew);
  }

  /** @type {Warn} */
  function warn(text, about) {
    const place = about && (about.closest(".explorer-field, fieldset") ?? about.closest("label") ?? about.parentElement);
    if (!place) root.prepend(problem);
    else if (place.nextSibling !== problem) place.after(problem); // where it is while one types
    problem.textContent = text;
  }

  /** @param {boolean} isNew */
  function soon(isNew) {
    frame ||= requestAnimationFrame(() => show(isNew));
    due();
  }

  function due() {
    root.dataset.due = frame || next ? "numbers" : timer ? "words" : "";
  }

  /** @param {boolean} isNew */
  function show(isNew) {
    frame = 0;
    draw(state);
    const wait = isHeld ? told + OFTEN - performance.now() : 0;
    clearTimeout(next);
    next = wait > 0 ? window.setTimeout(soon, wait, true) : 0;
    if (next) return;
    told = performance.now();
    const words = tell(state);
    settle(controls, state);
    program = words.program ?? "";
    if (code && /** @type {HTMLDetailsElement} */ (code.closest("details")).open) code.textContent = program;
    if (isNew) {
      clearTimeout(timer); // what changes with each frame is said, and noted, when it rests
      timer = window.setTimeout(() => {
        timer = 0;
        said.textContent = words.said;
        toAddress(name, state, first);
        due();
      }, 300);
    }
    due();
  }

  /** @param {unknown} error */
  function refuse(error) {
    if (!(error instanceof Refused)) throw error;
    warn(filled(texts[error.key], error.values), source);
    source?.setAttribute("aria-invalid", "true");
  }

  /** @param {State} changed */
  function change(changed) {
    try {
      accept({ ...state, ...changed }, true);
    } catch (error) {
      refuse(error);
    }
  }

  function read() {
    try {
      accept(fromAddress(name, first), false);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const why = filled(texts[error.key], { name, ...error.values });
      accept(first, false);
      warn(filled(texts["bad-address"], { why }), null);
    }
  }

  root.addEventListener("input", ({ target }) => { source = /** @type {Element} */ (target); }, true);
  root.addEventListener("input", ({ target }) => {
    const control = /** @type {HTMLInputElement} */ (target);
    if (!(control.name in first)) return;
    try {
      change({ [control.name]: valueOf(control) });
    } catch (error) {
      refuse(error);
    }
  });
  root.addEventListener("click", async ({ target }) => {
    const whole = /** @type {HTMLElement} */ (target).closest(".explorer-whole");
    if (whole) /** @type {HTMLAnchorElement} */ (whole).search = location.search; // the view comes along
    const action = /** @type {HTMLElement} */ (target).closest("button")?.dataset.do;
    if (action === "reset") change(first);
    if (action === "share") said.textContent = texts[(await share(name, state, first, root.id)) ? "shared" : "not-shared"];
    if (action === "copy") said.textContent = texts[(await copy(program)) ? "copied" : "not-copied"];
  });
  code?.closest("details")?.addEventListener("toggle", () => { code.textContent = program; });
  root.addEventListener("pointerdown", () => { isHeld = true; });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => {
    isHeld = false;
    if (next) soon(true);
  });
  addEventListener("popstate", read);
  // A browser may have left the controls as they last were: they follow the state.
  read();
  cancelAnimationFrame(frame);
  show(false);
  return { state: () => state, change, warn };
}

/** @param {HTMLElement} root  @returns {Record<string, string>} */
export function textsOf(root) {
  return JSON.parse(part(root, ".explorer-texts").textContent ?? "{}");
}

/**
 * The element that a view cannot do without.
 * @param {ParentNode} root  @param {string} selector  @returns {HTMLElement}
 */
export function part(root, selector) {
  const found = root.querySelector(selector);
  if (!found) throw new Error(`explorer: no element ${selector}`);
  return /** @type {HTMLElement} */ (found);
}

/** @param {string} text  @param {Record<string, unknown>} values  @returns {string} */
export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (brace, name) => (name in values ? String(values[name]) : brace));
}

/** @param {string} text  @returns {Promise<boolean>} whether it could be copied */
export function copy(text) {
  return Promise.resolve().then(() => navigator.clipboard.writeText(text)).then(() => true, () => false);
}

/**
 * What a control says; a number outside `min` and `max`, or none, is refused.
 * @param {HTMLInputElement} control
 */
function valueOf(control) {
  if (control.type === "checkbox") return control.checked;
  if (control.type !== "number" && control.type !== "range") return control.value;
  const { min, max, step, placeholder } = control;
  return numeric(control.value, { label: labelOf(control), low: Number(min), high: Number(max),
    isWhole: Number.isInteger(Number(step || 1)) && step !== "any", example: placeholder || min });
}

/** @param {HTMLInputElement} control */
function labelOf(control) {
  return control.getAttribute("aria-label") ?? control.labels?.[0]?.textContent?.trim() ?? control.name;
}

/**
 * A number as it was typed, with a comma or a point.
 * @param {string} typed
 * @param {{ label: string, low: number, high: number, isWhole?: boolean, example?: string }} expected
 */
export function numeric(typed, { label, low, high, isWhole = false, example = String(low) }) {
  const value = typed.trim() === "" ? NaN : Number(typed.trim().replace(",", ".").replace("−", "-"));
  if (Number.isNaN(value)) throw new Refused("not-a-number", { label, example });
  inRange(value, label, low, high);
  if (isWhole && !Number.isInteger(value)) throw new Refused("not-whole", { label, value });
  return value;
}

/** @param {unknown} value  @param {string} label  @param {number} low  @param {number} high */
export function inRange(value, label, low, high) {
  if (typeof value !== "number" || Number.isNaN(value)) throw new Refused("not-a-number", { label, example: low });
  if (value < low || value > high) throw new Refused("out-of-range", { label, value, low, high });
}

/** @param {unknown} value  @param {string} label  @param {unknown[]} options */
export function oneOf(value, label, options) {
  if (!options.includes(value)) throw new Refused("not-an-option", { label, value, options: options.join(", ") });
}

/**
 * Lets the controls show the state; what is being typed is left alone while it means the same, or
 * is refused: the frame that shows an earlier change may come after it.
 * @param {Iterable<HTMLInputElement>} controls  @param {State} state
 */
function settle(controls, state) {
  for (const control of controls) {
    if (!(control.name in state) || control.hasAttribute("aria-invalid")) continue;
    const value = state[control.name];
    if (control.type === "checkbox") control.checked = value;
    else if (control.type === "radio") control.checked = control.value === String(value);
    else if (control.type === "number" ? Number(control.value) !== value || control.value === "" : control.value !== String(value)) {
      control.value = String(value);
    }
  }
}
