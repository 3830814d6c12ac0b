"""The page in a real Chromium, on screens of a phone and of a desk, light and dark; and as a person uses it.

The program is looked for in the path (Debian's package ``chromium``). With ``CDCV2_SCREENSHOTS=FOLDER`` each page is
kept there as PNG, to be looked at.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import UnavailableError
from cdcv2.viz.svg import DARK, LIGHT
from tests.children import CDCV2, started
from tests.chromium import Chromium, browser, chromium
from tests.page_worlds import FILE, HOSTILE, WORLDS, PageWorld, all_well, blocked, nothing_there
from tests.stress.summary import record

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if browser() is None:
    pytest.skip("there is no Chromium in the path", allow_module_level=True)

#: Views of logs that were captured: one works, the folder of the other cannot be made.
PIPELINE = """
pipeline: shop
views:
  files:
    logs: logs
    bindings: [{log: public.orders, target: orders, key: [id]}, {log: public.order_items, target: items}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
  broken:
    logs: logs
    bindings: [{log: public.orders, target: orders, key: [id]}]
    target: {driver: lake, folder: /proc/nowhere/lake}
    recovery_log: recovery2
"""
TOKEN = "a-token/for&tests=alone"
HASH = "#token=a-token%2Ffor%26tests%3Dalone"
#: What each page has to show.
SHOWN = {
    "nothing there": ["Nothing is there yet.", "It waits for the topic shop.transaction", "No table is known yet"],
    "all well": ["All is well.", "public.orders", "at most 0.8 s behind", "complete through 101936016",
                 "keeps 4.2 MB of WAL", "not owned", "f2Qz7bV5Sx-0jM1y", "nightly"],
    "blocked": ["4 things need attention.", "connector shop", "No space left on device", "stands still",
                "public.orders, copy: orders", "restart?includeTasks=true&onlyFailed=true",
                f"cdcv2 up {FILE} --start-held lake"],
    "ten tables": ["Not all is there yet.", HOSTILE, "public.suppliers", "lake: lake_9",
                   "public.a_table_whose_name_has_all_sixty_three_letters_of_postgresql_ab"],
}  # fmt: skip
#: What is wider than the screen, or reaches beyond it, but for what is for screen readers alone.
WIDE = """[...document.querySelectorAll('body *')].filter(e => {
  const r = e.getBoundingClientRect(), s = getComputedStyle(e);
  return r.width > 1 && (r.right > innerWidth + 0.5 || r.left < -0.5) && s.clipPath === 'none' &&
    !e.closest('thead, .quiet, .skip, svg');
}).map(e => e.outerHTML.slice(0, 80))"""
#: Texts whose colour is too near to the ground behind them: WCAG AA.
FAINT = """(() => {
  const parse = (c) => c.match(/[0-9.]+/g).map(Number);
  const share = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * share(r) + 0.7152 * share(g) + 0.0722 * share(b);
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest('script, style, noscript, svg, [hidden]')) continue;
    let back = e, ground = [0, 0, 0, 0];
    while (back && (ground = parse(getComputedStyle(back).backgroundColor))[3] === 0) back = back.parentElement;
    const pair = [light(parse(getComputedStyle(e).color)), light(ground)].sort();
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    seen++;
    if (ratio < 4.5) found.push([walk.currentNode.data.slice(0, 40), ratio]);
  }
  return {seen, found};
})()"""
FOCUSABLE = "[...document.querySelectorAll('a[href], button, summary, input')].filter(e => e.checkVisibility())"
#: The element that has the focus: its number, whether all of it is on the screen, and whether it is marked.
FOCUSED = f"""(() => {{
  const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
  return [{FOCUSABLE}.indexOf(e), r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth,
    s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2];
}})()"""


class Stage:
    """A browser before a server that shows a world; the server may end and come back at the same port."""

    def __init__(self, chrome: Chromium) -> None:
        self.chrome, self.world, self.broken, self.asked = chrome, all_well(), "", 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._opened = ExitStack()

    def answer(self, width: int) -> dict[str, Any]:
        self.asked += 1
        if self.broken:
            raise UnavailableError(self.broken)
        return self.world.content(width)

    def serve(self) -> None:
        from cdcv2.control.api.address import listen
        from cdcv2.control.api.application import ApiAnswers, application
        from cdcv2.control.api.server import serving

        answers = ApiAnswers(lambda: {}, lambda: {}, lambda: "", self.answer, lambda name: False, lambda: True)
        listening = listen(f"127.0.0.1:{self.port}", unencrypted=False)
        self._opened.enter_context(serving(application(answers, TOKEN), listening))

    def end(self) -> None:
        self._opened.close()

    def show(self, world: PageWorld, address: str = HASH) -> None:
        """Open it, as if for the first time."""
        self.world = world
        self.chrome.evaluate("try { sessionStorage.clear() } catch {}")
        self.chrome.open("about:blank")
        self.chrome.events.clear()
        self.chrome.open(f"{self.url}{address}")

    def text(self) -> str:
        return str(self.chrome.evaluate("document.body.innerText"))

    def wait_for(self, text: str) -> None:
        self.chrome.wait(f"document.body.innerText.includes({text!r})")

    def check_silence(self) -> None:
        """No error of the console, and no request but to its own server, none of which has the token in its address."""
        events = [one for one in self.chrome.events if one.get("sessionId")]
        wrong = [one["params"] for one in events if one["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
                 or (one["method"] == "Runtime.consoleAPICalled" and one["params"]["type"] in ("error", "warning"))]
        requests = [one["params"]["request"] for one in events if one["method"] == "Network.requestWillBeSent"]
        urls = {one["url"] for one in requests} - {"about:blank", "data:,"}
        assert [] == wrong
        assert urls and all(url.startswith(self.url) for url in urls), urls
        assert not [url for url in urls if "token" in url]
        assert not [one for one in requests if one["headers"].get("Cookie") or one["headers"].get("Referer")]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chromium]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def stage(chrome: Chromium) -> Iterator[Stage]:
    made = Stage(chrome)
    chrome.size(1280)
    chrome.scheme("light")
    made.serve()
    yield made
    made.end()
    chrome.open("about:blank")


def keys_reach_everything(chrome: Chromium) -> int:
    """Tab goes through all that can be used, in its order, each on the screen and marked; how many there are."""
    count = chrome.evaluate(f"{FOCUSABLE}.length")
    chrome.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    reached = []
    for _ in range(count):
        chrome.press("Tab", 9)
        reached.append(chrome.evaluate(FOCUSED))
    assert [[number, True, True] for number in range(count)] == reached
    return int(count)


def screen_reader(chrome: Chromium) -> dict[str, int]:
    """How often each role is in the tree that a screen reader gets."""
    roles: dict[str, int] = {}
    for node in chrome.ask("Accessibility.getFullAXTree")["nodes"]:
        if not node.get("ignored"):
            role = str(node["role"]["value"])
            roles[role] = roles.get(role, 0) + 1
    return roles


def test_each_state_on_each_screen(stage: Stage) -> None:
    """Four states, a phone and a desk, light and dark: all is there, within the screen, reachable, and to be read."""
    chrome, folder = stage.chrome, os.environ.get("CDCV2_SCREENSHOTS")
    texts = reached = pages = 0
    for name, make in WORLDS.items():
        for width in (360, 1280):
            for scheme, colours in (("light", LIGHT), ("dark", DARK)):
                chrome.size(width)
                chrome.scheme(scheme)
                stage.show(make())
                stage.wait_for("External state")
                shown = chrome.evaluate("document.body.textContent")
                assert [] == [text for text in SHOWN[name] if text not in shown]
                assert chrome.evaluate("document.documentElement.scrollWidth") == width
                assert [] == chrome.evaluate(WIDE), (name, width)
                red, green, blue = (int(colours["ground"][at:at + 2], 16) for at in (1, 3, 5))
                ground = chrome.evaluate("getComputedStyle(document.documentElement).backgroundColor")
                assert ground == f"rgb({red}, {green}, {blue})"
                contrast = chrome.evaluate(FAINT)
                assert [] == contrast["found"], (name, scheme)
                roles = screen_reader(chrome)
                tables = chrome.evaluate("document.querySelectorAll('table').length")
                heads = chrome.evaluate("document.querySelectorAll('thead th').length")
                assert roles["main"] == roles["navigation"] == 1 and roles["table"] == tables, roles
                assert (roles["columnheader"], roles["heading"] > 3) == (heads, True), (name, width, roles)
                if folder:
                    chrome.screenshot(Path(folder) / f"{name.replace(' ', '-')}-{width}-{scheme}.png")
                texts, pages = texts + contrast["seen"], pages + 1
                reached += keys_reach_everything(chrome)
                stage.check_silence()
    for width in (481, 700, 899, 900, 1000, 1600):
        chrome.size(width)
        stage.wait_for("External state")
        assert chrome.evaluate("document.documentElement.scrollWidth") == width
        assert [] == chrome.evaluate(WIDE), width
    record("the page in a real Chromium", [0], {
        "pages": pages, "texts with the contrast of WCAG AA": texts, "links and buttons reached with Tab": reached,
    })


def test_no_name_becomes_html_and_no_text_can(stage: Stage) -> None:
    """Not even by a mistake in the script: the browser itself refuses it."""
    chrome = stage.chrome
    stage.show(WORLDS["ten tables"]())
    stage.wait_for("External state")
    assert chrome.evaluate("document.querySelectorAll('main script, img, iframe').length") == 0
    stage.check_silence()
    for script in ("document.body.innerHTML = '<b>x</b>'", "new DOMParser().parseFromString('<b>', 'text/html')",
                   "document.createElement('script').textContent = 'window.ran = 1'"):
        refused = chrome.evaluate(f"(() => {{ try {{ {script}; return '' }} catch (e) {{ return e.name }} }})()")
        assert refused == "TypeError", script
    policy = chrome.evaluate(
        "new Promise(done => { addEventListener('securitypolicyviolation', e => done(e.effectiveDirective));"
        "fetch('http://127.0.0.1:9/').catch(() => 0); })"
    )
    assert policy == "connect-src"


def test_the_token_is_taken_out_of_the_address_and_stays_in_the_tab(stage: Stage) -> None:
    """It outlives a reload; another tab has none, and takes it by hand. A wrong one is named so."""
    chrome = stage.chrome
    stage.show(all_well())
    stage.wait_for("All is well.")
    assert chrome.evaluate("location.href") == stage.url
    assert chrome.evaluate("document.title") == "shop: All is well."
    assert chrome.evaluate("[document.cookie, localStorage.length, Object.values(sessionStorage)]") == ["", 0, [TOKEN]]
    chrome.open(stage.url)
    stage.wait_for("All is well.")
    stage.show(all_well(), "")
    stage.wait_for("This page needs the token")
    assert "shop" not in chrome.evaluate("document.querySelector('main').innerText")
    keys_reach_everything(chrome)
    chrome.evaluate("document.getElementById('token').focus()")
    for given, answer in (("no token", "This is no token"), ("wrong-token-of-somebody", "does not accept"),
                          (TOKEN, "All is well.")):
        chrome.ask("Input.insertText", text=given)
        chrome.press("Enter", 13, text="\r")
        stage.wait_for(answer)
        chrome.evaluate("document.getElementById('token').focus()")
    stage.show(all_well(), "#token=wrong")
    stage.wait_for("does not accept this token")
    chrome.evaluate(f"location.hash = {HASH!r}")
    stage.wait_for("All is well.")


def test_it_renews_itself_and_leaves_the_reader_where_they_are(stage: Stage) -> None:
    """The focus and opened details stay; a screen reader gets the new verdict."""
    chrome = stage.chrome
    stage.show(blocked())
    stage.wait_for("4 things need attention.")
    chrome.evaluate("document.querySelector('summary').focus()")
    chrome.press("Enter", 13, text="\r")
    chrome.wait("document.querySelector('details').open")
    stage.wait_for("server database of shop")
    model = blocked()
    stage.world = model._replace(status=model.status._replace(pipeline="another name"))
    stage.wait_for("another name")
    assert chrome.evaluate("document.activeElement.localName + document.querySelector('details').open") == "summarytrue"
    stage.world = nothing_there()
    stage.wait_for("Nothing is there yet.")
    stage.world = all_well()
    stage.wait_for("All is well.")
    assert chrome.evaluate("document.querySelector('[role=status]').textContent") == "All is well."
    assert chrome.evaluate("document.querySelectorAll('article').length") == 0
    stage.check_silence()


def test_it_pauses(stage: Stage) -> None:
    """While it does, it asks for nothing, and states so."""
    chrome = stage.chrome
    stage.show(all_well())
    stage.wait_for("All is well.")
    chrome.evaluate("document.getElementById('pause').focus()")
    chrome.press(" ", 32, text=" ")
    stage.wait_for("; paused")
    before = stage.asked
    stage.world = blocked()
    chrome.wait("/, ([6-9]|\\d\\d) s ago; paused/.test(document.body.innerText)")
    assert stage.asked == before and "All is well." in stage.text()
    assert chrome.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    chrome.press(" ", 32, text=" ")
    stage.wait_for("4 things need attention.")


def test_it_states_when_the_controller_is_away_and_when_it_fails(stage: Stage) -> None:
    """It keeps what it had, with how old that is, and continues when the controller is there again."""
    chrome = stage.chrome
    stage.show(all_well())
    stage.wait_for("All is well.")
    stage.end()
    stage.wait_for("cdcv2 up does not answer since")
    text = stage.text()
    assert f"start it: cdcv2 up {FILE} --listen" in text and "public.orders" in text
    assert re.search(r"As of .*, \d+ s ago", text)
    assert chrome.evaluate("document.getElementById('age').className") == "old"
    assert chrome.evaluate("document.querySelector('[role=alert]').textContent.length") > 0
    stage.serve()
    chrome.wait("!document.body.innerText.includes('does not answer')")
    assert chrome.evaluate("document.getElementById('age').className") == ""
    stage.broken = "servers of the pipeline have not answered"
    stage.wait_for("servers of the pipeline have not answered. What to do: the reason names what to do")
    stage.broken = ""
    chrome.wait("document.getElementById('notice').textContent === ''")


def test_the_page_of_a_real_controller(chrome: Chromium, tmp_path: Path) -> None:
    """From captured change data: what works, what does not, and why; the controller ends, and comes back."""

    def cdcv2(*words: str) -> str:
        ran = subprocess.run([*CDCV2, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    with resources.as_file(resources.files("cdcv2.demo") / "recorded") as recorded:
        shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    cdcv2("capture", "topics.jsonl.gz", "--prefix", "clean_full", "--rows", "rows", "--into", "logs")
    (tmp_path / "shop.yaml").write_text(PIPELINE, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = "127.0.0.1:{}".format(free.getsockname()[1])
    up = [*CDCV2, "up", "shop.yaml", "--listen", place]
    chrome.size(1280)
    chrome.open("about:blank")
    chrome.events.clear()
    try:
        with started(*up, cwd=tmp_path) as process:
            while not (tmp_path / "shop.state" / "api.json").exists():
                assert process.poll() is None
            address = cdcv2("page", "shop.yaml")
            chrome.open(address)
            chrome.wait("document.body.innerText.includes('/proc/nowhere/lake') &&"
                        "document.body.innerText.includes('complete through')")
            shown = chrome.evaluate("document.body.innerText")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        chrome.wait("document.body.innerText.includes('cdcv2 up does not answer')")
        assert "start it: cdcv2 up shop.yaml --listen" in chrome.evaluate("document.body.innerText")
        with started(*up, cwd=tmp_path) as process:
            chrome.wait(f"document.body.innerText.includes('kept running by process {process.pid}')")
    finally:
        subprocess.run([*CDCV2, "down", "shop.yaml"], cwd=tmp_path, check=True, timeout=120, capture_output=True)
    assert "One thing needs attention." in shown and "files: items" in shown and "broken: orders" in shown
    assert address.startswith(f"http://{place}/#token=")
    assert chrome.evaluate("location.href") == f"http://{place}/"
