// The theme asks when a key is let go: what comes from a menu, a voice or a switch is asked as well.
document.addEventListener("input", function (event) {
  if (event.target.matches(".md-search__input")) event.target.dispatchEvent(new Event("keyup"));
});
// Of a text of several lines, the error that ends it, in one line: a field would join its words.
function oneLine(text) {
  var last = text.search(/^[\w.]*(Error|Exception|Warning)\b(?![^]*^[\w.]*(Error|Exception|Warning)\b)/m);
  return text.slice(Math.max(0, last)).trim().replace(/\s+/g, " ");
}
function lookFor(query) {
  var field = document.querySelector(".md-search__input");
  field.value = query;
  field.dispatchEvent(new Event("keyup"));
}
document.addEventListener("paste", function (event) {
  var text = event.clipboardData.getData("text");
  if (!event.target.matches(".md-search__input") || !/\n/.test(text.trim())) return;
  event.preventDefault();
  lookFor(oneLine(text));
});
// A box on a page that opens the search with what it holds.
document.querySelectorAll("form.find").forEach(function (form) {
  form.addEventListener("submit", function (event) {
    var text = form.elements.q.value.trim();
    if (!text) return; // to the page of the form
    event.preventDefault();
    document.querySelector(".md-search__input").focus();
    lookFor(text);
  });
});
