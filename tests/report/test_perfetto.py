"""The hand-over of a trace to Perfetto, against a page that behaves as its documentation says.

https://perfetto.dev/docs/visualization/embedding-api-reference: messages count once the page has loaded, and only from
the window that opened it; PING is answered by PONG, to any origin; a trace is {perfetto: {buffer, title}}, of which the
first alone is taken; of an origin that is not trusted, such as that of a file, it is opened after a question.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.browser

PERFETTO = """<!doctype html><button hidden>Yes</button><script>
function receive(event) {
  if (document.readyState !== "complete" || event.source !== opener) return;
  if (event.data === "PING") return opener.postMessage("PONG", "*");
  const { buffer, title } = event.data.perfetto;
  if (!(buffer instanceof ArrayBuffer) || !buffer.byteLength || typeof title !== "string") throw new Error("no trace");
  removeEventListener("message", receive);
  window.origin_of_trace = event.origin;
  const yes = document.querySelector("button");
  yes.hidden = false;
  yes.onclick = () => { document.title = title; window.trace = Array.from(new Uint8Array(buffer)); };
}
addEventListener("message", receive);
</script>"""


@pytest.fixture
def handed(browser, report) -> Iterator[Callable]:
    """handed(body) -> (page, opened): the case's page, and the window that is opened with this body for Perfetto."""
    context = browser.new_context()

    def hand_over(body: str):
        asked: list[str] = []
        context.route(
            "https://ui.perfetto.dev/**",
            lambda route: (asked.append(route.request.url), route.fulfill(body=body, content_type="text/html")),
        )
        page = context.new_page()
        page.clock.install()
        page.goto((report / "index.html").as_uri() + "#case-linear-eager")
        page.wait_for_selector("html[data-ready]")
        assert asked == []
        with context.expect_page() as opened:
            page.get_by_role("button", name="Open in Perfetto").click()
        opened.value.wait_for_load_state()
        return page, opened.value

    yield hand_over
    context.close()


def status(page) -> str:
    return page.locator("#case-linear-eager [role=status]").inner_text()


def test_perfetto_gets_the_trace_after_a_click_and_only_then(handed):
    page, perfetto = handed(PERFETTO)
    perfetto.get_by_role("button", name="Yes").click()
    assert perfetto.evaluate("window.origin_of_trace") == "null"  # the report is a file
    sent = json.loads(gzip.decompress(bytes(perfetto.evaluate("window.trace"))))
    # linear-eager, by hand: two ops and a launch on the CPU, one kernel
    assert [event["cat"] for event in sent["traceEvents"]] == ["cpu_op", "cpu_op", "cpu_op", "kernel"]
    assert perfetto.title() == "linear-eager on h200"
    assert status(page).startswith("Perfetto has the trace.")


def test_where_perfetto_does_not_answer_the_page_says_what_to_do(handed):
    page, _ = handed("<!doctype html>")
    page.clock.run_for(61_000)
    assert status(page) == (
        "Perfetto did not answer within a minute. Download the trace and drop it on ui.perfetto.dev."
    )


def test_where_its_window_was_closed_the_page_says_so(handed):
    page, perfetto = handed("<!doctype html>")
    perfetto.close()
    page.clock.run_for(1000)
    assert status(page).startswith("The window was closed.")
