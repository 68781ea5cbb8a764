// The search: it opens, asks search-worker.js and shows what that finds. The index is larger than a
// page with all that belongs to it, so it is loaded when the search is opened, or an address brings
// words.
(function () {
  var box = document.querySelector(".md-search"), field = document.querySelector(".md-search__input");
  if (!box) return;
  var toggle = document.getElementById("__search");
  var list = box.querySelector(".md-search-result__list"), told = box.querySelector(".md-search-result__meta");
  var config = JSON.parse(document.getElementById("__config").textContent), texts = config.texts;
  var base = new URL(config.base.replace(/\/*$/, "/"), location);
  var isPortuguese = document.documentElement.lang.startsWith("pt");
  var unknown = document.createElement("p"), worker, isReady = false, asked;
  unknown.className = "md-search-result__unknown";
  told.after(unknown);

  // Where the index may be read: on a disk it is a script (book/make/disk.py).
  function index() {
    if (location.protocol !== "file:") return fetch(new URL("search/search_index.json", base)).then(function (found) { return found.json(); });
    return new Promise(function (done) {
      var script = document.createElement("script");
      script.src = new URL("search/search_index.js", base);
      script.onload = function () { done(__index); };
      document.head.append(script);
    });
  }
  // A search begun in the reference of the package puts its entries first: the worker is told so.
  function start() {
    if (worker) return;
    var first = /\/reference\/api\//.test(location.pathname) ? "?first=reference/api/" : "";
    worker = new Worker(new URL("style/search-worker.js" + first, base));
    worker.onmessage = function (event) {
      if (event.data.type === 1) { // as the worker numbers its messages
        isReady = true;
        ask();
      } else if (event.data.type === 3) show(event.data.data);
    };
    index().then(function (data) { worker.postMessage({ type: 0, data: data }); });
  }
  function ask() {
    if (!isReady || field.value === asked) return;
    asked = field.value;
    worker.postMessage({ type: 2, data: asked });
  }
  // What can be typed, as long as nothing is.
  function hint() {
    unknown.textContent = isPortuguese
      ? "Um termo, um nome do código ou uma mensagem de erro inteira: “cache KV”, “is_causal”, “NaN na softmax”."
      : "A term, a name from code or a whole error message: “KV cache”, “is_causal”, “NaN in softmax”.";
  }
  function open() {
    toggle.checked = true;
    if (!field.value) hint();
    list.setAttribute("role", "list");
    list.hidden = false;
    start();
  }
  function close() {
    toggle.checked = false;
    list.setAttribute("role", "presentation");
    list.hidden = true;
    var place = new URL(location);
    if (!place.searchParams.has("q")) return;
    place.searchParams.delete("q");
    history.replaceState({}, "", place);
  }
  field.addEventListener("focus", open);
  toggle.addEventListener("change", function () {
    if (toggle.checked) field.focus();
    else close();
  });
  field.addEventListener("input", ask);
  field.form.addEventListener("submit", function (event) { event.preventDefault(); });
  field.form.addEventListener("reset", function () {
    setTimeout(ask);
    field.focus();
  });

  function show(answer) {
    var count = answer.items.length;
    told.textContent = !asked ? texts.placeholder
      : count === 0 ? texts.none
      : count === 1 ? texts.one
      : texts.other.replace("#", count);
    // What the book does not speak of is said above what was found by the other words.
    unknown.textContent = answer.unknown && answer.unknown.length
      ? (isPortuguese ? "Não está neste livro: " : "Not in this book: ") + answer.unknown.join(", ") : "";
    if (!asked) hint();
    list.innerHTML = answer.items.map(item).join("");
  }
  // A page: itself, with its best sections; and the others, folded.
  function item(places) {
    var most = places[0].score, page = places.find(function (place) { return !place.location.includes("#"); });
    var others = places.filter(function (place) { return place !== page; });
    var more = others.filter(function (place) { return place.score < most; });
    var best = others.slice(0, others.length - more.length);
    return '<li class="md-search-result__item">' + entry(page, true, page === places[0] && !best.length)
      + best.map(function (place) { return entry(place, false, true); }).join("")
      + (more.length ? '<details class="md-search-result__more"><summary tabindex="-1"><div>'
        + (more.length === 1 ? texts["more.one"] : texts["more.other"].replace("#", more.length))
        + "</div></summary>" + more.map(function (place) { return entry(place, false, true); }).join("") + "</details>" : "")
      + "</li>";
  }
  function entry(place, isPage, hasText) {
    var title = isPage ? "h1" : "h2";
    return '<a class="md-search-result__link" tabindex="-1" href="' + new URL(place.location, base) + '">'
      + '<article class="md-search-result__article md-typeset" data-md-score="' + place.score.toFixed(2) + '">'
      + (isPage ? '<div class="md-search-result__icon md-icon"></div>' : "")
      + "<" + title + ">" + place.title + "</" + title + ">" + (hasText ? place.text : "") + "</article></a>";
  }
  box.addEventListener("click", function (event) {
    if (event.target.closest("a")) close();
  });

  document.addEventListener("keydown", function (event) {
    if (event.metaKey || event.ctrlKey || event.isComposing) return;
    var active = document.activeElement;
    if (toggle.checked) inside(event, active);
    else if (/^[fs/]$/.test(event.key) && !event.altKey
      && !active.closest("input:not([type=radio]), select, textarea, [contenteditable]")) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });
  function inside(event, active) {
    if (event.key === "Enter" && active === field) {
      event.preventDefault();
      var links = [...list.querySelectorAll("a")], score = function (link) { return +link.firstElementChild.dataset.mdScore; };
      if (links.length) links.reduce(function (one, other) { return score(other) > score(one) ? other : one; }).click();
    } else if (event.key === "Escape" || event.key === "Tab") {
      close();
      field.blur();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      var stops = [field, ...list.querySelectorAll(":not(details) > a, summary, details[open] a")];
      var next = Math.max(0, stops.indexOf(active)) + stops.length + (event.key === "ArrowUp" ? -1 : 1);
      stops[next % stops.length].focus();
    } else if (event.key.length === 1 && active !== field && box.contains(active)) field.focus();
  }

  // Of a text of several lines, the error that ends it, in one line: a field would join its words.
  function oneLine(text) {
    var last = text.search(/^[\w.]*(Error|Exception|Warning)\b(?![^]*^[\w.]*(Error|Exception|Warning)\b)/m);
    return text.slice(Math.max(0, last)).trim().replace(/\s+/g, " ");
  }
  function lookFor(query) {
    field.value = query;
    ask();
  }
  field.addEventListener("paste", function (event) {
    var text = event.clipboardData.getData("text");
    if (!/\n/.test(text.trim())) return;
    event.preventDefault();
    lookFor(oneLine(text));
  });
  // A box on a page that opens the search with what it holds.
  document.querySelectorAll("form.find").forEach(function (form) {
    form.addEventListener("submit", function (event) {
      var text = form.elements.q.value.trim();
      if (!text) return; // to the page of the form
      event.preventDefault();
      field.focus();
      lookFor(text);
    });
  });
  var words = new URL(location).searchParams.get("q");
  if (words !== null) {
    field.value = words;
    open();
    field.focus();
  }
})();
