// "Open in Perfetto": hands the embedded trace to ui.perfetto.dev in a window of its own, after a click and only then.
// The hand-shake is the one that https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui describes:
// PING until the window answers PONG, then one message with the trace.

const PERFETTO = "https://ui.perfetto.dev";
const PERFETTO_PATIENCE = 60000; // ms

function bytesOf(base64) {
  const text = atob(base64);
  return Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer;
}

// say(text): what the reader is told.
function openInPerfetto(buffer, title, say) {
  const target = window.open(PERFETTO);
  if (!target) return say("The browser kept the window from opening. Allow it, or download the trace.");
  say("Waiting for Perfetto. It asks whether to open the trace: answer Yes.");
  const stop = (text) => {
    clearInterval(timer);
    clearTimeout(end);
    removeEventListener("message", answer);
    say(text);
  };
  const answer = (event) => {
    if (event.source !== target || event.origin !== PERFETTO || event.data !== "PONG") return;
    stop("Perfetto has the trace. If it asks whether to open it, answer Yes.");
    target.postMessage({ perfetto: { buffer, title } }, PERFETTO);
  };
  const remedy = "Download the trace and drop it on ui.perfetto.dev.";
  const ping = () => (target.closed ? stop(`The window was closed. ${remedy}`) : target.postMessage("PING", PERFETTO));
  const timer = setInterval(ping, 100);
  const end = setTimeout(() => stop(`Perfetto did not answer within a minute. ${remedy}`), PERFETTO_PATIENCE);
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
  const note = h("span", { class: "note", role: "status" });
  note.append("Opening hands the trace to ui.perfetto.dev, in your browser.");
  const say = (text) => (note.textContent = text);
  return h(
    "p",
    { class: "tools" },
    button("Open in Perfetto", () => openInPerfetto(bytesOf(trace.gz), titleOf(cell), say)),
    button("Download the trace", save),
    note,
  );
}
