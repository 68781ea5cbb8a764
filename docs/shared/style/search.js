// An error message that is pasted into the search: its words are looked for together. Its signs are
// operators of the search, its numbers those of the reader, and any message begins with its error.
function asQuery(text) {
  var words = (text.match(/[\p{L}\p{N}_]+/gu) || []).filter(function (word) {
    return /^[^\d]./u.test(word) && !/(Error|Warning)$/.test(word);
  });
  return words.length < 4 ? null : '"' + words.join(" ") + '"';
}
function lookFor(query) {
  var field = document.querySelector(".md-search__input");
  field.value = query;
  field.dispatchEvent(new Event("keyup")); // which a paste from a menu lacks
}
document.addEventListener("paste", function (event) {
  var field = event.target;
  if (!(field instanceof HTMLInputElement && field.matches(".md-search__input"))) return;
  var query = asQuery(event.clipboardData.getData("text"));
  if (!query) return;
  event.preventDefault();
  lookFor(query);
});
// A box on a page that opens the search with what it holds.
document.querySelectorAll("form.find").forEach(function (form) {
  form.addEventListener("submit", function (event) {
    var text = form.elements.q.value.trim();
    if (!text) return; // to the page of the form
    event.preventDefault();
    document.querySelector(".md-search__input").focus();
    lookFor(asQuery(text) || text);
  });
});
