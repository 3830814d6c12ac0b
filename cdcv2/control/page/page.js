"use strict";
// Asks the controller that served this page for its content, every few seconds, and makes nodes of it, one by one: no
// text is read as HTML. The token comes behind # in the address, or is pasted; it is kept for this tab alone.
(() => {
  const EVERY = 3000, PATIENCE = 15000, OLD = 30000, KEY = "cdcv2.token", SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const content = byId("status"), form = byId("token-form"), notice = byId("notice"), pause = byId("pause");
  let token = "", timer = 0, last = null, lostAt = null, paused = false, asking = false;

  // A browser that keeps nothing still has the token until the page is left.
  const keep = (value) => { token = value; try { sessionStorage.setItem(KEY, value); } catch { /* kept above */ } };
  const kept = () => { try { return sessionStorage.getItem(KEY) || ""; } catch { return ""; } };
  const forget = () => { token = ""; try { sessionStorage.removeItem(KEY); } catch { /* nothing was kept */ } };

  function takeToken() {
    if (!location.hash.startsWith("#token=")) return false;
    const found = location.hash.slice("#token=".length);
    history.replaceState(null, "", location.pathname);
    try { keep(decodeURIComponent(found)); } catch { return false; }
    return true;
  }

  function made(tree, space) {
    if (typeof tree === "string") return document.createTextNode(tree);
    const own = tree[0] === "svg" ? SVG : space;
    const node = own ? document.createElementNS(own, tree[0]) : document.createElement(tree[0]);
    for (const [name, value] of Object.entries(tree[1])) node.setAttribute(name, value);
    for (const child of tree[2]) node.append(made(child, own));
    return node;
  }

  // Changes what differs, and leaves the rest: focus, selections and opened details stay where they are.
  function patch(node, tree, space) {
    if (typeof tree === "string") {
      if (node.nodeType !== Node.TEXT_NODE) node.replaceWith(made(tree, space));
      else if (node.data !== tree) node.data = tree;
      return;
    }
    const own = tree[0] === "svg" ? SVG : space;
    if (node.nodeType !== Node.ELEMENT_NODE || node.localName !== tree[0]) {
      node.replaceWith(made(tree, space));
      return;
    }
    for (const name of node.getAttributeNames()) {
      if (!(name in tree[1]) && !(tree[0] === "details" && name === "open")) node.removeAttribute(name);
    }
    for (const [name, value] of Object.entries(tree[1])) {
      if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    const before = [...node.childNodes];
    tree[2].forEach((child, at) => at < before.length ? patch(before[at], child, own) : node.append(made(child, own)));
    before.slice(tree[2].length).forEach((one) => one.remove());
  }

  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const seconds = (since) => Math.max(0, Math.round((performance.now() - since) / 1000));
  const clock = (ago) => new Date(Date.now() - 1000 * ago).toLocaleTimeString();

  function showAge() {
    const age = byId("age");
    if (!last) return put(age, token ? "Asking cdcv2 up …" : "");
    const ago = seconds(last.at);
    age.classList.toggle("old", lostAt !== null || (!paused && 1000 * ago > OLD));
    put(age, `As of ${clock(ago)}, ${ago} s ago${paused ? "; paused" : ""}`);
  }

  function accept(body) {
    last = {at: performance.now() - 1000 * body.age, file: body.file};
    lostAt = null;
    form.hidden = true;
    content.hidden = pause.hidden = false;
    put(notice, "");
    document.title = `${body.pipeline}: ${body.headline}`;
    put(byId("verdict"), body.headline);
    if (content.firstChild) patch(content.firstChild, body.content, null);
    else content.append(made(body.content, null));
  }

  function refuse() {
    const again = token !== "";
    forget();
    last = null;
    content.hidden = pause.hidden = true;
    content.replaceChildren();
    form.hidden = false;
    document.title = "cdcv2";
    put(notice, again ? "cdcv2 up does not accept this token. It may have another one since its last start." : "");
    showAge();
  }

  function lose() {
    if (lostAt !== null) return;
    lostAt = performance.now();
    const then = last ? `What is below is as it was at ${clock(seconds(last.at))}. ` : "";
    const file = last ? ` ${last.file}` : "";
    put(notice, `cdcv2 up does not answer since ${clock(0)}. ${then}` +
      `If it has ended, start it: cdcv2 up${file} --listen. The jobs go on without it.`);
  }

  async function ask() {
    clearTimeout(timer);
    if (asking || paused || document.hidden) return;
    if (!token) return refuse();
    asking = true;
    const cut = new AbortController(), end = setTimeout(() => cut.abort(), PATIENCE);
    const width = Math.round(document.body.clientWidth - 2 * parseFloat(getComputedStyle(document.body).paddingLeft));
    try {
      const answer = await fetch(`v1/page?width=${width}`, {
        headers: {Authorization: `Bearer ${token}`}, cache: "no-store", credentials: "omit", redirect: "error",
        signal: cut.signal,
      });
      const body = await answer.json();
      if (answer.ok) accept(body);
      else if (answer.status === 401) refuse();
      else put(notice, `${body.reason}. What to do: ${body.remedy}.`);
    } catch {
      lose();
    } finally {
      clearTimeout(end);
      asking = false;
      showAge();
    }
    timer = setTimeout(ask, EVERY);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = byId("token").value.trim();
    byId("token").value = "";
    if (!/^[!-~]+$/.test(given)) return put(notice, "This is no token: paste the one line of the token file.");
    put(notice, "");
    keep(given);
    ask();
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    showAge();
    ask();
  });
  addEventListener("hashchange", () => { if (takeToken()) ask(); });
  addEventListener("visibilitychange", ask);
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(ask, 200); });
  setInterval(showAge, 1000);
  token = kept();
  takeToken();
  showAge();
  ask();
})();
