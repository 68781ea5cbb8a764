// Elements and the numbers in them.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element of HTML.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag  @param {Record<string, string | number>} [attributes]  @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function html(tag, attributes = {}, ...children) {
  return dressed(document.createElement(tag), attributes, children);
}

/**
 * An element of SVG.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag  @param {Record<string, string | number>} [attributes]  @param {(Node | string)[]} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * @template {Element} E
 * @param {E} element  @param {Record<string, string | number>} attributes  @param {(Node | string)[]} children
 * @returns {E}
 */
function dressed(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Copies or removes the last children of an element until there are so many. @param {Element} parent  @param {number} count */
export function grow(parent, count) {
  while (parent.children.length > count) parent.lastElementChild?.remove();
  while (parent.children.length < count) parent.append(/** @type {Element} */ (parent.lastElementChild).cloneNode(true));
}

/**
 * Changes the attributes that are not so already: what stays costs no frame its time.
 * @param {Element} element  @param {Record<string, string | number>} attributes
 */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
  }
}

/** Changes a text; a new node would have each `:has()` asked again. @param {Element} element  @param {string} text */
export function say(element, text) {
  const only = element.firstChild;
  if (only instanceof Text && only === element.lastChild) {
    if (only.data !== text) only.data = text;
  } else if (element.textContent !== text) element.textContent = text;
}

/**
 * Writes a number into an element, as book/stage/explorers.py does: with its name and its exact value,
 * by which a test compares it with attnref.
 * @param {HTMLElement | SVGElement} element  @param {string} name  @param {number} value  @param {number} [digits]
 */
export function write(element, name, value, digits = 4) {
  set(element, { "data-name": name, "data-value": value });
  say(element, figure(value, digits));
}

/**
 * Writes new values of the numbers that are there already, each element with its own `data-digits`.
 * @param {HTMLElement} root  @param {Record<string, number>} values by name
 */
export function rewrite(root, values) {
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-name]"))) {
    const value = values[element.dataset.name ?? ""];
    if (value !== undefined) write(element, element.dataset.name ?? "", value, Number(element.dataset.digits ?? 4));
  }
}

/**
 * A number with so many decimals, or as many significant digits where it is tiny or large.
 * @param {number} value  @param {number} digits
 */
export function figure(value, digits) {
  const size = Math.abs(value);
  const text = !Number.isFinite(size) ? (size > 0 ? "∞" : "?")
    : size === 0 || (size >= 0.5 * 10 ** -digits && size < 1e9) ? size.toFixed(digits)
    : size.toExponential(Math.max(digits - 1, 0)).replace("e+", "e");
  return value < 0 ? `−${text}` : text;
}
