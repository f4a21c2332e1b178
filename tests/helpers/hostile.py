"""Names that try to run something where they are shown, and what rendered HTML is made of."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = [
    "<script>hurt()</script>",
    "</script><script>hurt()</script>",
    "</code></pre></details><script>hurt()</script>",
    "<img src=x onerror=hurt()>",
    "<a href='javascript:hurt()'>x</a>",
    "[x](javascript:hurt())",
    "![x](x){: onerror=hurt() }",
    "![x][javascript:hurt()]",
    "<javascript:hurt()>",
    "x{: onclick=hurt() }",
    "x{@onclick=hurt()}",
    "`<script>hurt()</script>`",
    "```<script>hurt()</script>```",
    "`x` | </td><script>hurt()</script>",
    "a\\`<script>hurt()</script>\\`",
    "<!-- --><script>hurt()</script><!-- -->",
    "<![CDATA[<script>hurt()</script>]]>",
    "<?php <script>hurt()</script> ?>",
    "&lt;script&gt;hurt()&lt;/script&gt;",
    "&#60;script&#62;hurt()&#60;/script&#62;",
    "<svg/onload=hurt()>",
    "<details open ontoggle=hurt()>",
    "<style>*{display:none}</style>",
    "<iframe srcdoc='<script>hurt()</script>'>",
    "\n\n<script>hurt()</script>\n\n",
    "[^1]: <script>hurt()</script>",
    "*[x]: <script>hurt()</script>",
    "[x]: javascript:hurt()",
    "$<script>hurt()</script>$",
    "!!! danger <script>hurt()</script>",
    "- <script>hurt()</script>",
    "# <script>hurt()</script>",
    "1. <script>hurt()</script>",
    "    <script>hurt()</script>",
    "[[javascript:hurt()]]",
    "~~x~~ ==y== ^z^ __a__ *b* _c_ a_b_c",
    "<SCRIPT>hurt()</SCRIPT >",
    "<scr\x00ipt>hurt()</scr\x00ipt>",
    "＜script＞hurt()＜/script＞",
    "void at::native::k<4, f<c10::BFloat16>>(int, &x) const&&",
    "aten::add_",
]


class Page(HTMLParser):
    """Elements, attributes and readable text of rendered HTML."""

    def __init__(self, rendered: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.other: list[str] = []
        self.text = ""
        self.feed(rendered)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment
