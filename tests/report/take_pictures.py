"""Take the README's pictures of a report: python tests/report/take_pictures.py reports/example docs/images

Needs chromium and Playwright's Python package. Pictures are taken of the rendered page, nothing is drawn by hand.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

LIMIT_BYTES = 250_000
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def first_screen(page: Page) -> bytes:
    """Verdict, headline, costliest findings and runs."""
    return page.screenshot(clip={"x": 0, "y": 0, "width": 1280, "height": 832})


def one_case(page: Page) -> bytes:
    """The strips of attention, and SDPA's math backend on the clock."""
    page.evaluate("document.querySelector('.masthead').style.display = 'none'")
    box = page.locator("figure.strips[data-name=strips-attention]").bounding_box()
    top = page.screenshot(clip={**box, "width": box["width"] + 24}, full_page=True)  # labels reach into the margin
    page.evaluate("location.hash = '#case-mlp-eager'")
    below = page.locator("#case-mlp-eager .lanes-figure").screenshot()
    return stacked([top, below])


def stacked(parts: list[bytes], gap: int = 36) -> bytes:
    images = [Image.open(io.BytesIO(part)).convert("RGB") for part in parts]
    width = max(image.width for image in images) + 2 * gap
    whole = Image.new("RGB", (width, sum(i.height for i in images) + gap * (len(images) + 1)), (252, 251, 248))
    y = gap
    for image in images:
        whole.paste(image, (gap, y))
        y += image.height + gap
    return encoded(whole)


def encoded(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.convert("P", palette=Image.Palette.ADAPTIVE, colors=192).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def main(report: str, output: str) -> int:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1.5)
        page.goto((Path(report).resolve() / "index.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        for name, take in (("report.png", first_screen), ("strips.png", one_case)):
            picture = encoded(Image.open(io.BytesIO(take(page))))
            if len(picture) > LIMIT_BYTES:
                print(
                    f"{name}: {len(picture):,} bytes, more than {LIMIT_BYTES:,}: take less of the page", file=sys.stderr
                )
                return 1
            Path(output).mkdir(parents=True, exist_ok=True)
            (Path(output) / name).write_bytes(picture)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
