// A browser gives no worker to a page that is read from a disk: its script runs in a frame instead.
window.Worker = class {
  constructor(url) {
    var worker = this, frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    var inside = worker.inside = frame.contentWindow;
    function script(from) { return '<script src="' + from + '"><\/script>'; }
    worker.ready = new Promise(function (done) { frame.onload = done; });
    inside.document.open();
    inside.postMessage = function (data) { worker.onmessage({ data: data }); };
    inside.importScripts = function (name) { inside.document.write(script(name)); };
    url = new URL(url, location).href;
    inside.document.write('<base href="' + url + '">' + script(url));
    inside.document.close();
  }
  postMessage(data) {
    var inside = this.inside;
    this.ready.then(function () { inside.onmessage({ data: data }); });
  }
};
