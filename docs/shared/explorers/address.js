// A view in the address, so that it can be shared: what differs from the first view, as JSON.
import { copy, Refused } from "./explorer.js";

/** @typedef {import("./explorer.js").State} State */

/** @param {string} name  @param {State} first  @returns {State} */
export function fromAddress(name, first) {
  const text = new URL(location.href).searchParams.get(name);
  if (text === null) return first;
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Refused("not-json", { name });
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Refused("not-json", { name });
  for (const key of Object.keys(found)) {
    if (!Object.hasOwn(first, key)) throw new Refused("unknown", { key });
  }
  return { ...first, ...found };
}

/** @param {string} name  @param {State} state  @param {State} first */
export function toAddress(name, state, first) {
  const url = addressOf(name, state, first);
  if (url.href !== location.href) history.replaceState(history.state, "", url);
}

/**
 * Copies the address of a view.
 * @param {string} name  @param {State} state  @param {State} first  @param {string} id of the explorer
 */
export function share(name, state, first, id) {
  toAddress(name, state, first);
  const url = addressOf(name, state, first);
  url.hash = id;
  return copy(url.href);
}

/** @param {string} name  @param {State} state  @param {State} first  @returns {URL} */
function addressOf(name, state, first) {
  const url = new URL(location.href);
  const changed = Object.entries(state).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(first[key]));
  if (changed.length) url.searchParams.set(name, JSON.stringify(Object.fromEntries(changed)));
  else url.searchParams.delete(name);
  return url;
}
