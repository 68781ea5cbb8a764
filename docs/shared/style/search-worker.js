// The search: it takes the place of the theme's own worker, speaks its messages and fills its list.
// A page is found by its names (title, headings, what docs/also-called.yml and the glossary call it)
// and by its text. Words match without accents, in other forms, and with a slip of a letter.
var SETUP = 0, READY = 1, QUERY = 2, RESULT = 3;
var STOP = new Set(("a an and are as at be by can could do does for from get has have how i if in into is it its many me much my of on or " +
  "our should so that the their there these this to use using was what when where which while who why will with " +
  "would you your not " +
  "ao aos as com como da das de do dos e ela ele em entre essa esse esta este eu faz fazer ha isso mais meu minha " +
  "na nao nas no nos num numa o os ou para pela pelo pode por porque qual quais quando quanta quanto que quem se sem " +
  "ser serve seu sua tem ter um uma usa usar vs").split(" "));
var pages, sections, words, names;

self.onmessage = function (event) {
  var message = event.data;
  if (message.type === SETUP) {
    build(message.data.docs);
    postMessage({ type: READY });
  } else if (message.type === QUERY) {
    postMessage({ type: RESULT, data: { items: search(message.data) } });
  }
};

// Words in lower case, without accents; the sign of infinity is the word that is typed for it.
function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().replace(/∞/g, " inf ");
}
function tokens(text) {
  return plain(text).match(/[\p{L}\p{N}_]+(?:\.\d+)?/gu) || [];
}
// Without the endings of the plural, of both languages: cautious, as both sides lose the same.
function stem(word) {
  if (word.length < 4 || /ss$/.test(word)) return word;
  return word.replace(/oes$/, "ao").replace(/([aeo])is$/, "$1l").replace(/ies$/, "y").replace(/([sxz]|[rz])es$/, "$1")
    .replace(/s$/, "");
}

function build(docs) {
  pages = [], sections = [], words = new Map(), names = [];
  var byPlace = {};
  docs.forEach(function (doc) {
    var place = doc.location.split("#")[0];
    var page = byPlace[place];
    if (!page) {
      page = byPlace[place] = { number: pages.length, weight: doc.weight, where: doc.where, sections: [] };
      pages.push(page);
    }
    var section = { number: sections.length, doc: doc, page: page, text: doc.text, title: doc.title };
    sections.push(section);
    page.sections.push(section);
    var all = tokens(section.title + " " + section.text);
    section.length = all.length;
    section.joined = " " + all.join(" ") + " ";
    all.forEach(function (word) {
      add(word, section.number);
      if (word.includes("_")) word.split("_").filter(Boolean).forEach(function (part) { add(part, section.number); });
    });
    var isPage = !doc.location.includes("#");
    name(section.title, section, isPage ? 1 : 0.6);
    (doc.names || []).forEach(function (text) { name(text, section, 1); });
  });
}
function add(word, section) {
  var known = words.get(word);
  if (!known) words.set(word, known = { stem: stem(word), in: new Map() });
  known.in.set(section, (known.in.get(section) || 0) + 1);
}
function name(text, section, strength) {
  var said = tokens(text).filter(function (word, _, all) { return all.length === 1 || !STOP.has(word); });
  said.forEach(function (word) { if (!words.has(word)) words.set(word, { stem: stem(word), in: new Map() }); });
  if (said.length) names.push({ words: said, section: section, strength: strength });
}
function idf(count) {
  return Math.log(1 + (sections.length - count + 0.5) / (count + 0.5));
}

// Letters to be changed, left out, added or exchanged, at most `most`.
function slips(a, b, most) {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  var before, row = [], next, i, j;
  for (j = 0; j <= b.length; j++) row[j] = j;
  for (i = 1; i <= a.length; i++) {
    next = [i];
    for (j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    if (Math.min.apply(null, next) > most) return most + 1;
    before = row, row = next;
  }
  return row[b.length];
}
function alike(word, stemmed, other, known, unfinished) {
  if (other === word) return 1;
  if (known.stem === stemmed) return 0.9;
  var same = 0, least = Math.min(word.length, other.length);
  while (same < least && word[same] === other[same]) same++;
  var rest = word.length - same, more = other.length - same;
  if (same >= 5 && rest <= 3 && more <= 3 && same >= 0.65 * Math.max(word.length, other.length)) return 0.6;
  if (unfinished && !rest && word.length > 1) return 0.6 * Math.sqrt(word.length / other.length);
  if (same >= 5 && rest <= 2 && more <= 6) return 0.3;
  return 0;
}
// What a word of the query may stand for in the book: {word: how surely}.
function meanings(word, unfinished) {
  var found = new Map(), stemmed = stem(word), surest = 0;
  words.forEach(function (known, other) {
    var sure = alike(word, stemmed, other, known, unfinished);
    if (sure) found.set(other, sure);
    surest = Math.max(surest, sure);
  });
  if (surest >= 0.6 || words.has(word)) return found;
  for (var cut = 3; cut <= word.length - 3; cut++) { // one word for two
    var parts = [word.slice(0, cut), word.slice(cut)];
    if (parts.every(function (part) { return words.has(part); }))
      parts.forEach(function (part) { found.set(part, 0.8); });
  }
  var most = word.length < 5 || /^\d/.test(word) ? 0 : word.length < 9 ? 1 : 2;
  if (most) words.forEach(function (known, other) {
    if (other.length < 4) return;
    var wrong = slips(word, other, most);
    if (wrong <= most) found.set(other, Math.max(found.get(other) || 0, 0.8 / wrong));
  });
  return found;
}

function asked(query) {
  var all = tokens(query);
  if (all.length > 3) all = all.filter(function (word) { // in a message the numbers are the reader's own
    return !/^\d/.test(word) && !/(error|warning)$/.test(word);
  });
  var kept = all.filter(function (word) { return !STOP.has(word); });
  if (!kept.length) kept = all;
  var open = /[\p{L}\p{N}_]$/u.test(query) && all[all.length - 1];
  var terms = Array.from(new Set(kept)).map(function (word) {
    return { word: word, means: meanings(word, word === open) };
  });
  terms.forEach(function (term, i) { // two words for one
    var next = terms[i + 1], joined = next && term.word + next.word;
    if (joined && words.has(joined)) term.means.set(joined, 1), next.means.set(joined, 1);
  });
  return { all: all, terms: terms.filter(function (term) {
    term.in = new Map();
    term.means.forEach(function (sure, word) {
      words.get(word).in.forEach(function (count, section) {
        term.in.set(section, (term.in.get(section) || 0) + sure * count);
      });
    });
    var exact = words.get(term.word);
    term.idf = idf(exact && exact.in.size ? Math.max(exact.in.size, term.in.size / 2) : term.in.size);
    return term.means.size;
  }) };
}

function search(query) {
  var question = asked(query), terms = question.terms, whole = 0;
  if (!terms.length) return [];
  terms.forEach(function (term) { whole += term.idf; });
  var average = 250, inText = new Map(), inPage = new Map();
  terms.forEach(function (term) {
    var counts = new Map();
    term.in.forEach(function (count, number) {
      var section = sections[number], value = count / (count + 1.2 * (0.4 + 0.6 * section.length / average));
      inText.set(section, (inText.get(section) || 0) + value * term.idf / whole);
      counts.set(section.page, (counts.get(section.page) || 0) + count);
    });
    counts.forEach(function (count, page) {
      inPage.set(page, (inPage.get(page) || 0) + count / (count + 8) * term.idf / whole);
    });
  });
  var named = new Map();
  names.forEach(function (name) {
    var said = 0, full = 0, heard = 0;
    var best = terms.map(function () { return 0; });
    name.words.forEach(function (word) {
      var weight = idf(words.get(word).in.size), sure = 0;
      terms.forEach(function (term, i) {
        var value = term.means.get(word) || 0;
        sure = Math.max(sure, value), best[i] = Math.max(best[i], value);
      });
      full += weight, said += weight * sure;
    });
    if (!said) return;
    terms.forEach(function (term, i) { heard += best[i] * term.idf; });
    var score = name.strength * said / full * heard / whole;
    if (score > (named.get(name.section) || 0)) named.set(name.section, score);
  });
  var pairs = question.all.slice(1).map(function (word, i) { return " " + question.all[i] + " " + word + " "; });
  var long = question.all.length > 4;
  var candidates = new Set();
  inText.forEach(function (_, section) { candidates.add(section.page); });
  named.forEach(function (_, section) { candidates.add(section.page); });
  var found = [];
  candidates.forEach(function (page) {
    var best = page.sections.map(function (section) {
      var text = inText.get(section) || 0, phrase = 0;
      if (pairs.length && text > 0.1) {
        pairs.forEach(function (pair) { phrase += section.joined.includes(pair); });
        phrase /= pairs.length;
      }
      return { section: section, text: text, name: named.get(section) || 0, phrase: phrase * (long ? 1.5 : 0.4) };
    });
    function most(part) { return Math.max.apply(null, best.map(function (one) { return one[part]; })); }
    best.forEach(function (one) { one.score = one.name + 0.8 * one.text + one.phrase; });
    var score = page.weight * (1.6 * most("name") + 0.5 * most("text") + most("phrase") + 0.5 * (inPage.get(page) || 0));
    found.push({ page: page, score: score, best: best });
  });
  found.sort(function (a, b) { return b.score - a.score; });
  return found.filter(function (one) { return one.score > 0.2 * found[0].score; }).slice(0, 20)
    .map(function (one) { return shown(one, terms); });
}

// One page as the theme's list wants it: its best place first, the others below.
function shown(one, terms) {
  var places = one.best.filter(function (place) { return place.score > 0; });
  places.sort(function (a, b) { return b.score - a.score; });
  places = places.slice(0, 6);
  var head = one.best[0];
  if (!places.includes(head)) places.push(head);
  return places.map(function (place) {
    var section = place.section, missing = {};
    terms.forEach(function (term) { if (!term.in.has(section.number)) missing[term.word] = false; });
    var title = escaped(section.title);
    if (place === head && one.page.where)
      title = '<span class="md-search-result__where">' + escaped(one.page.where) + " ›</span> " + title;
    return {
      location: section.doc.location, title: title, text: excerpt(section.text, terms),
      score: place.score, terms: {}
    };
  });
}
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
// A piece of the text with as many of the words as any other piece, marked.
function excerpt(text, terms) {
  var hits = [], word = /[\p{L}\p{N}_]+/gu, match;
  while ((match = word.exec(text))) {
    var said = plain(match[0]);
    terms.forEach(function (term) {
      if (term.means.has(said)) hits.push({ from: match.index, to: match.index + match[0].length, term: term });
    });
  }
  var start = 0, most = 0;
  hits.forEach(function (hit) {
    var seen = new Map();
    hits.forEach(function (other) {
      if (other.from >= hit.from && other.to < hit.from + 180)
        seen.set(other.term, Math.max(seen.get(other.term) || 0, other.term.idf));
    });
    var value = 0;
    seen.forEach(function (weight) { value += weight; });
    if (value > most + 1e-9) most = value, start = hit.from;
  });
  start = start < 60 ? 0 : text.lastIndexOf(" ", start - 30) + 1;
  var end = start + 220 < text.length ? text.lastIndexOf(" ", start + 220) : text.length, piece = "", at = start;
  hits.forEach(function (hit) {
    if (hit.from < at || hit.to > end) return;
    piece += escaped(text.slice(at, hit.from)) + "<mark data-md-highlight>" + escaped(text.slice(hit.from, hit.to)) + "</mark>";
    at = hit.to;
  });
  return (start ? "… " : "") + piece + escaped(text.slice(at, end)) + (end < text.length ? " …" : "");
}
