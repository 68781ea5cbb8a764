// The words of the search, for its worker: what is one, and how alike two are.
// Words that only join the others, in both languages. A query of nothing else is looked for whole.
var STOP = new Set((
  "a an and are as at be by can could do does for from get has have how i if in into is it its many me much my " +
  "not of on or our should so that the their there these this to use using was what when where which while who " +
  "why will with would you your " +
  "ao aos as com como da das de do dos e ela ele em entre essa esse esta este eu faz fazer ha isso mais meu minha " +
  "na nao nas no nos num numa o os ou para pela pelo pode por porque qual quais quando quanta quanto que quem se " +
  "sem ser serve seu sua tem ter um uma usa usar vs"
).split(" "));

// In lower case, without accents; the sign of infinity is the word that is typed for it.
function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().replace(/∞/g, " inf ");
}
// Signs join no words and are none: -inf is inf, and `mat1` is mat1.
function tokens(text) {
  return plain(text).match(/[\p{L}\p{N}_]+(?:\.\d+)?/gu) || [];
}
// Without the endings of the plural, of both languages: roughly, as both sides lose the same.
function stem(word) {
  if (word.length < 4 || /ss$/.test(word)) return word;
  return word.replace(/oes$/, "ao").replace(/([aeo])is$/, "$1l").replace(/ies$/, "y")
    .replace(/([rsxz])es$/, "$1").replace(/s$/, "");
}

// How surely the word that was typed means the other, from 0 to 1. The last one may be unfinished.
function alike(word, other, unfinished) {
  if (other[0] !== word[0]) return 0; // most are done with here
  if (other === word) return 1;
  if (stem(other) === stem(word)) return 0.9;
  var longest = Math.max(word.length, other.length), same = 0;
  while (same < longest && word[same] === other[same]) same++;
  var rest = word.length - same, more = other.length - same;
  if (same >= 5 && rest <= 3 && more <= 3 && same >= 0.65 * longest) return 0.6; // another ending
  if (unfinished && !rest && same > 1) return 0.6 * Math.sqrt(same / other.length);
  if (same >= 5 && rest <= 2 && more <= 6) return 0.3; // a word derived from it
  return 0;
}

// How many slips of the hand a word may have: a letter changed, left out, added or exchanged.
function allowed(word) {
  return word.length < 5 || /^\d/.test(word) ? 0 : word.length < 9 ? 1 : 2;
}
// The slips between two words; more than `most` are not counted further.
function slips(a, b, most) {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  var before, row = Array.from({ length: b.length + 1 }, function (_, j) { return j; });
  for (var i = 1; i <= a.length; i++) {
    var next = [i];
    for (var j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    if (Math.min.apply(null, next) > most) return most + 1;
    before = row, row = next;
  }
  return row[b.length];
}
