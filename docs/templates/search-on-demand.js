// The search's index is larger than a page with all that belongs to it: the theme's request for it
// waits until the search is opened, or an address brings words to be looked for.
(function () {
  var wanted = /[?&]q=/.test(location.search), waiting = [];
  var open = XMLHttpRequest.prototype.open, send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.open = function (method, url) {
    this.isIndex = /\/search_index\.json$/.test(url);
    return open.apply(this, arguments);
  };
  XMLHttpRequest.prototype.send = function () {
    var go = send.bind(this, ...arguments);
    if (this.isIndex && !wanted) waiting.push(go);
    else go();
  };
  ["focusin", "change"].forEach(function (event) {
    document.addEventListener(event, function (event) {
      if (!event.target.matches(".md-search__input, #__search")) return;
      wanted = true;
      waiting.splice(0).forEach(function (go) { go(); });
    });
  });
})();
