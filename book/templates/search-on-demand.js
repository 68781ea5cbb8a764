// What the book does not speak of is said above what was found by the other words.
function tellUnknown(words) {
  if (!words) return;
  var place = document.querySelector(".md-search-result__unknown");
  if (!place) {
    place = document.createElement("p");
    place.className = "md-search-result__unknown";
    document.querySelector(".md-search-result__meta").after(place);
  }
  var isPortuguese = document.documentElement.lang.startsWith("pt");
  place.textContent = words.length ? (isPortuguese ? "Não está neste livro: " : "Not in this book: ") + words.join(", ") : "";
}
// The search's index is larger than a page with all that belongs to it. The theme's request for it,
// and the worker that reads it, wait until the search is opened, or an address brings words.
// A search begun in the reference of the package puts its entries first: the worker is told so.
(function () {
  var wanted = /[?&]q=/.test(location.search), waiting = [];
  var first = /\/reference\/api\//.test(location.pathname) ? "?first=reference/api/" : "";
  function soon(go) {
    if (wanted) go();
    else waiting.push(go);
  }
  var open = XMLHttpRequest.prototype.open, send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.open = function (method, url) {
    this.isIndex = /\/search_index\.json$/.test(url);
    return open.apply(this, arguments);
  };
  XMLHttpRequest.prototype.send = function () {
    var go = send.bind(this, ...arguments);
    if (this.isIndex) soon(go);
    else go();
  };
  var Worker = window.Worker;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      var self = this;
      self.sent = [];
      soon(function () {
        self.worker = new Worker(url + first);
        self.worker.onmessage = function (event) {
          tellUnknown(event.data.data && event.data.data.unknown);
          self.dispatchEvent(new MessageEvent("message", { data: event.data }));
        };
        self.sent.forEach(function (message) { self.worker.postMessage(message); });
      });
    }
    postMessage(message) {
      if (this.worker) this.worker.postMessage(message);
      else this.sent.push(message);
    }
  };
  ["focusin", "change"].forEach(function (event) {
    document.addEventListener(event, function (event) {
      if (!event.target.matches(".md-search__input, #__search")) return;
      wanted = true;
      waiting.splice(0).forEach(function (go) { go(); });
    });
  });
})();
