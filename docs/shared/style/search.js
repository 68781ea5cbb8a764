// An error message is full of signs that the search takes for its operators, and it then finds
// nothing: of what is pasted only the words are kept. The theme listens for keys, and a paste
// from a menu presses none.
document.addEventListener("paste", function (event) {
  var field = event.target;
  if (field instanceof HTMLInputElement && field.matches(".md-search__input")) {
    event.preventDefault();
    var words = event.clipboardData.getData("text").match(/[\p{L}\p{N}_]+(\.[\p{L}\p{N}_]+)*/gu);
    field.setRangeText((words || []).join(" "), field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("keyup"));
  }
});
