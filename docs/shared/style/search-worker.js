// The search. It takes the place of the theme's own worker, speaks its messages and fills its list.
// A page is found by its names (title, headings, what docs/also-called.yml and the glossary call it)
// and by its text; book/finish/search_index.py writes both into the index.
importScripts("search-words.js");
// Names, and how each section begins, are a tenth of it all: with them a first answer comes at once.
// The texts follow, and what was asked meanwhile is answered again.
var SETUP = 0, READY = 1, QUERY = 2, RESULT = 3; // messages, as the theme numbers them
var WHOLE = 4; // of ours: the texts are there
var FIRST = new URLSearchParams(self.location.search).get("first"); // the room that is asked, if one is
var pages, sections, names;
var words; // {word: {section: how often}}
var last; // what was asked last
var isWhole; // whether the texts are there

self.onmessage = function (event) {
  var message = event.data;
  if (message.type === SETUP) {
    var docs = message.data.docs, texts = message.data.config.texts;
    isWhole = !texts;
    build(docs);
    postMessage({ type: READY });
    if (texts) fetch(new URL(texts, self.location)).then(function (found) { return found.json(); }).then(function (all) {
      all.forEach(function (text, i) { docs[i].text = text; });
      isWhole = true;
      build(docs);
      postMessage({ type: WHOLE });
      if (last) answer();
    });
  } else if (message.type === QUERY) {
    last = message.data;
    answer();
  }
};
function answer() {
  postMessage({ type: RESULT, data: search(last) });
}

function build(docs) {
  pages = new Map(), sections = [], names = [], words = new Map();
  docs.forEach(function (doc) {
    var place = doc.location.split("#")[0], isPage = place === doc.location;
    if (isPage) {
      var isFirst = FIRST && place.startsWith(FIRST);
      pages.set(place, { weight: doc.weight * (isFirst ? 4 : 1), where: doc.where, sections: [] });
    }
    var all = tokens(doc.title + " " + doc.text);
    var section = { doc: doc, page: pages.get(place), length: all.length, joined: " " + all.join(" ") + " " };
    sections.push(section);
    section.page.sections.push(section);
    all.forEach(function (word) {
      add(word, section);
      if (word.includes("_")) word.split("_").filter(Boolean).forEach(function (part) { add(part, section); });
    });
    name(doc.title, section, isPage ? 1 : 0.6);
    if (doc.where) name(doc.where.split("›").pop() + " " + doc.title, section, 0.8); // "Pitfalls: masks"
    (doc.names || []).forEach(function (text) { name(text, section, 1, text); });
  });
}
function add(word, section) {
  if (!words.has(word)) words.set(word, new Map());
  if (section) words.get(word).set(section, (words.get(word).get(section) || 0) + 1);
}
// ``called`` where it is not the title: a result says then by which name it was found.
function name(text, section, strength, called) {
  var all = tokens(text.replace(/_/g, " ")), said = all.filter(function (word) { return all.length === 1 || !STOP.has(word); });
  said.forEach(function (word) { add(word); });
  if (said.length) names.push({ words: said, section: section, strength: strength, called: called });
}
// What it tells that a word is said which so many sections say.
function worth(count) {
  return Math.log(1 + (sections.length - count + 0.5) / (count + 0.5));
}
function sum(list, value) {
  return list.reduce(function (total, one) { return total + value(one); }, 0);
}
function raise(map, key, value) {
  if (value > (map.get(key) || 0)) map.set(key, value);
}

// What a word of the query may mean in the book: {word: how surely}.
function meanings(word, unfinished) {
  var found = new Map(), surest = 0, most = allowed(word);
  words.forEach(function (_, other) {
    var sure = alike(word, other, unfinished);
    if (sure) found.set(other, sure);
    surest = Math.max(surest, sure);
  });
  if (surest >= 0.6) return found;
  for (var cut = 3; cut <= word.length - 3; cut++) { // two words in one
    var parts = [word.slice(0, cut), word.slice(cut)];
    if (words.has(parts[0]) && words.has(parts[1])) raise(found, parts[0], 0.8), raise(found, parts[1], 0.8);
  }
  if (most) words.forEach(function (_, other) {
    var wrong = other.length > 3 ? slips(word, other, most) : most + 1;
    if (wrong <= most) raise(found, other, 0.8 / wrong);
  });
  return found;
}
// The words of a query, in their order, and what is looked for.
function asked(query) {
  var all = tokens(query).slice(-60); // a long text says at its end what is wrong
  if (all.length > 3) all = all.filter(function (word) { // in a message the numbers are the reader's own
    return !/^\d/.test(word) && !/(error|warning)$/.test(word);
  });
  var kept = all.filter(function (word) { return !STOP.has(word); });
  var open = /[\p{L}\p{N}_]$/u.test(query) && all[all.length - 1];
  var terms = Array.from(new Set(kept.length ? kept : all), function (word) {
    return { word: word, means: meanings(word, word === open), in: new Map() };
  });
  terms.forEach(function (term, i) { // one word in two
    var next = terms[i + 1], joined = next && term.word + next.word;
    if (words.has(joined)) term.means.set(joined, 1), next.means.set(joined, 1);
  });
  terms.forEach(function (term) {
    term.means.forEach(function (sure, word) {
      words.get(word).forEach(function (count, section) {
        term.in.set(section, (term.in.get(section) || 0) + sure * count);
      });
    });
    var exact = words.has(term.word) ? words.get(term.word).size : 0;
    term.worth = worth(exact ? Math.max(exact, term.in.size / 2) : term.in.size);
  });
  function isKnown(term) { return term.means.size; }
  var unknown = terms.filter(function (term) { return !isKnown(term); });
  return { words: all, terms: terms.filter(isKnown), unknown: unknown.map(function (term) { return term.word; }) };
}

function search(query) {
  var question = asked(query), terms = question.terms;
  var texts = inTexts(terms), named = inNames(terms), found = [];
  pages.forEach(function (page) {
    var places = page.sections.map(function (section) {
      var place = { section: section, text: texts.sections.get(section) || 0, name: named.get(section) || 0, called: named.called.get(section) };
      place.phrase = place.text > 0.1 ? phrase(question.words, section) : 0;
      place.score = place.name + 0.8 * place.text + place.phrase;
      return place;
    });
    function best(part) { return Math.max.apply(null, places.map(function (place) { return place[part]; })); }
    var inAll = texts.pages.get(page) || 0;
    var score = page.weight * (1.6 * best("name") + 0.5 * best("text") + 0.5 * inAll + best("phrase"));
    if (score) found.push({ page: page, score: score, places: places });
  });
  found.sort(function (a, b) { return b.score - a.score; });
  found = found.filter(function (one) { return one.score > 0.2 * found[0].score; }).slice(0, 20);
  var items = found.map(function (one, i) { return shown(one, terms, found.length - i); });
  return { items: items, unknown: isWhole ? question.unknown : [] };
}
// How much of what is looked for each section says, and each page as a whole, from 0 to 1.
function inTexts(terms) {
  var found = { sections: new Map(), pages: new Map() }, whole = sum(terms, function (term) { return term.worth; });
  terms.forEach(function (term) {
    var counts = new Map();
    term.in.forEach(function (count, section) {
      var said = count / (count + 0.5 + section.length / 350); // often says more, and more in a short text
      found.sections.set(section, (found.sections.get(section) || 0) + said * term.worth / whole);
      counts.set(section.page, (counts.get(section.page) || 0) + count);
    });
    counts.forEach(function (count, page) {
      found.pages.set(page, (found.pages.get(page) || 0) + count / (count + 8) * term.worth / whole);
    });
  });
  return found;
}
// How well a name of each section fits: the share of the name that is asked, times the share of the
// query that the name answers.
function inNames(terms) {
  var found = new Map(), whole = sum(terms, function (term) { return term.worth; });
  found.called = new Map();
  names.forEach(function (name) {
    function sure(word, term) { return term.means.get(word) || 0; }
    function surest(values) { return Math.max.apply(null, values); }
    if (!name.words.some(function (word) { return terms.some(function (term) { return sure(word, term); }); })) return;
    var value = function (word) { return worth(words.get(word).size); };
    var said = sum(name.words, function (word) {
      return value(word) * surest(terms.map(function (term) { return sure(word, term); }));
    });
    var answered = sum(terms, function (term) {
      return term.worth * surest(name.words.map(function (word) { return sure(word, term); }));
    });
    var fits = name.strength * said / sum(name.words, value) * answered / whole;
    if (fits > (found.get(name.section) || 0)) found.called.set(name.section, name.called);
    raise(found, name.section, fits);
  });
  return found;
}
// Neighbours in the query that are neighbours in the text too. A message is known by them.
function phrase(asked, section) {
  var pairs = asked.slice(1).map(function (word, i) { return " " + asked[i] + " " + word + " "; });
  var met = pairs.filter(function (pair) { return section.joined.includes(pair); });
  return met.length && (pairs.length > 3 ? 1.5 : 0.4) * met.length / pairs.length;
}

// One page as the theme's list wants it: its best place first, and the page itself, which has a title.
// On Enter the theme opens the place of the highest score anywhere in the list, hence the rank in it.
function shown(found, terms, rank) {
  var head = found.places[0];
  var best = found.places.filter(function (place) { return place.score > 0; });
  best = best.sort(function (a, b) { return b.score - a.score; }).slice(0, 6);
  var most = best.length ? best[0].score : 1;
  if (!best.includes(head)) best.push(head);
  return best.map(function (place) {
    var doc = place.section.doc, title = escaped(doc.title);
    if (place === head && found.page.where)
      title = '<span class="md-search-result__where">' + escaped(found.page.where) + " ›</span> " + title;
    if (place.called && place.name > 0.5)
      title += ' <span class="md-search-result__called">(' + escaped(place.called) + ")</span>";
    return { location: doc.location, title: title, text: excerpt(doc.text, terms), score: rank + place.score / most / 2, terms: {} };
  });
}
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
// A piece of the text that says as much of what is looked for as any other, with the words marked.
function excerpt(text, terms) {
  var hits = [], start = 0, most = 0;
  for (var match of text.matchAll(/[\p{L}\p{N}_]+/gu)) {
    var said = plain(match[0]);
    terms.forEach(function (term) {
      if (term.means.has(said)) hits.push({ from: match.index, to: match.index + match[0].length, term: term });
    });
  }
  hits.forEach(function (hit, i) {
    var near = new Set();
    for (var j = i; j < hits.length && hits[j].to < hit.from + 180; j++) near.add(hits[j].term);
    var value = sum(Array.from(near), function (term) { return term.worth; });
    if (value > most) most = value, start = hit.from;
  });
  start = start < 60 ? 0 : text.lastIndexOf(" ", start - 30) + 1;
  var end = start + 220 < text.length ? text.lastIndexOf(" ", start + 220) : text.length;
  var piece = start ? "… " : "", at = start;
  hits.forEach(function (hit) {
    if (hit.from < at || hit.to > end) return;
    piece += escaped(text.slice(at, hit.from)) + "<mark data-md-highlight>" + escaped(text.slice(hit.from, hit.to)) + "</mark>";
    at = hit.to;
  });
  return piece + escaped(text.slice(at, end)) + (end < text.length ? " …" : "");
}
