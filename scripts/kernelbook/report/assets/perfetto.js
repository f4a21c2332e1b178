// "Open in Perfetto": hands the embedded trace to ui.perfetto.dev in a window of its own, after a click and only then.
// The hand-shake is the one that https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui describes:
// PING until the window answers PONG, then one message with the trace.

const PERFETTO = "https://ui.perfetto.dev";
const PERFETTO_PATIENCE = 60000; // ms

function bytesOf(base64) {
  const text = atob(base64);
  return Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer;
}

function openInPerfetto(buffer, title) {
  const target = window.open(PERFETTO);
  if (!target) return announce("The browser kept the window from opening. Allow it, or download the trace.");
  const stop = () => {
    clearInterval(timer);
    removeEventListener("message", answer);
  };
  const answer = (event) => {
    if (event.source !== target || event.origin !== PERFETTO || event.data !== "PONG") return;
    stop();
    target.postMessage({ perfetto: { buffer, title } }, PERFETTO);
  };
  const timer = setInterval(() => (target.closed ? stop() : target.postMessage("PING", PERFETTO)), 100);
  setTimeout(stop, PERFETTO_PATIENCE);
  addEventListener("message", answer);
}

function traceTools(cell) {
  const trace = cell.trace;
  if (!trace) return h("p", { class: "note" }, "This run left no trace.");
  if (trace.href) {
    return h(
      "p",
      { class: "note" },
      h("a", { href: trace.href, download: true }, "The trace"),
      " is too large for this page and lies beside it; open it at ",
      h("a", { href: PERFETTO, rel: "noreferrer" }, "ui.perfetto.dev"),
      ".",
    );
  }
  const save = () => {
    const url = URL.createObjectURL(new Blob([bytesOf(trace.gz)], { type: "application/gzip" }));
    h("a", { href: url, download: `${fileName(cell.run, cell.case)}.json.gz` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  return h(
    "p",
    { class: "tools" },
    button("Open in Perfetto", () => openInPerfetto(bytesOf(trace.gz), titleOf(cell))),
    button("Download the trace", save),
    h("span", { class: "note" }, "Opening hands the trace to ui.perfetto.dev, in your browser."),
  );
}
