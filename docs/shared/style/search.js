// An error message that is pasted into the search: its words are looked for together. Its signs are
// operators of the search, its numbers those of the reader, and any message begins with its error.
document.addEventListener("paste", function (event) {
  var field = event.target;
  if (!(field instanceof HTMLInputElement && field.matches(".md-search__input"))) return;
  var text = event.clipboardData.getData("text");
  var words = (text.match(/[\p{L}\p{N}_]+/gu) || []).filter(function (word) {
    return /^[^\d]./u.test(word) && !/(Error|Warning)$/.test(word);
  });
  if (words.length < 4) return;
  event.preventDefault();
  field.value = '"' + words.join(" ") + '"';
  field.dispatchEvent(new Event("keyup")); // which a paste from a menu lacks
});
