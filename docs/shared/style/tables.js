// A table of results is sorted by a column's button, within each length, and sifted by what is typed
// above it. Without this script it is the whole table, in the order of the page. A telephone takes a
// second to lay out the tables of a page anew, so each has a frame of its own.
(function next(boxes) {
  if (!boxes.length) return;
  requestAnimationFrame(function () {
    mount(boxes[0]);
    next(boxes.slice(1));
  });
})([...document.querySelectorAll(".results[data-sift]")]);
function mount(box) {
  var table = box.querySelector("table"), words = box.dataset;
  var rows = [...table.querySelectorAll("tbody tr:has(td)")];
  var heads = [...table.querySelectorAll("thead th")];
  function told(row, column) {
    return row.cells[column].textContent.trim();
  }
  heads.forEach(function (head, column) {
    var button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", function () {
      var down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      [...rows].sort(function (one, other) {
        var a = told(one, column), b = told(other, column);
        var x = parseFloat(a), y = parseFloat(b);
        if (isNaN(x) !== isNaN(y)) return isNaN(x) - isNaN(y); // what has no number comes last
        return (isNaN(x) ? a.localeCompare(b) : x - y) * (down ? -1 : 1);
      }).forEach(function (row) { row.parentElement.append(row); });
    });
  });
  if (rows.length < 9) return; // seen at a glance
  var line = document.createElement("p"), label = document.createElement("label");
  var field = document.createElement("input"), said = document.createElement("span");
  line.className = "sift";
  field.type = "text";
  said.setAttribute("role", "status");
  label.append(words.sift + " ", field);
  line.append(label, said);
  box.prepend(line);
  field.addEventListener("input", function () {
    var wanted = field.value.trim().toLowerCase();
    rows.forEach(function (row) { row.hidden = !told(row, 0).toLowerCase().includes(wanted); });
    table.querySelectorAll("tbody").forEach(function (part) {
      part.hidden = !part.querySelector("tr:has(td):not([hidden])");
    });
    var shown = rows.filter(function (row) { return !row.hidden; }).length;
    said.textContent = wanted && words.shown.replace("{shown}", shown).replace("{all}", rows.length);
  });
}
