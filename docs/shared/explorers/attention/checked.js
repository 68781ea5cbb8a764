// Which states can be shown.
import { filled, inRange, oneOf, Refused } from "../explorer.js";

/** @param {import("../explorer.js").State} state  @param {Record<string, string>} texts */
export function checked(state, texts) {
  const { words, vectors } = state, count = Array.isArray(words) ? words.filter(isText).length : 0;
  if (count !== words?.length || count < 2 || count > 8) throw new Refused("words", { count });
  for (const [j, word] of words.entries()) {
    if (word.length > 12) throw new Refused("long-word", { word });
    if (vectors?.length !== count || vectors[j]?.length !== 3) throw new Refused("not-vectors", {});
    for (const p of [0, 1, 2]) inRange(vectors[j][p], filled(texts["number-of"], { word, p: p + 1 }), -1, 1);
  }
  for (const [key, label] of [["query", texts.query], ["key", texts["head-word"]], ["padding", texts.padding]]) {
    inRange(state[key], label, 0, count - 1);
    if (!Number.isInteger(state[key])) throw new Refused("not-whole", { label, value: state[key] });
  }
  inRange(state.own, texts.own, -10, 10);
  inRange(state.temperature, texts.temperature, 0.1, 4);
  oneOf(state.scale, texts.scale, ["1", "root", "own"]);
  oneOf(state.is_causal, texts.causal, [true, false]);
  oneOf(state.side, texts.side, ["end", "start"]);
  oneOf(state.view, texts.view, ["loop", "matrix"]);
  oneOf(state.plane, texts.plane, ["0,1", "0,2", "1,2"]);
}

/** @param {unknown} word */
function isText(word) {
  return typeof word === "string" && /^\S+$/.test(word);
}
