"""The live page in a real browser: what people read there, on a phone and on a desk, and that the page's
own policy stops nothing of it. Skipped where no Chromium is installed (it is large, so ops/test does not
install one)."""
import json
import os
import re
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser

from cluster import Cluster, Skipped, chat, main
from plan import write_plan

LOG = "\n".join(f"2024-05-{d:02d} 12:00:0{d % 10} INFO service[{d}]: request took {d * 7} ms status=200"
                for d in range(1, 20))


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    raise Skipped("no Chromium is installed")


def look(url, width, height, *more):
    """The page's elements after two seconds, and what the browser's console said."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
             f"--window-size={width},{height}", "--virtual-time-budget=2500", "--enable-logging=stderr", *more, url],
            capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


class Tables(HTMLParser):
    """Each table as rows of cell texts, by its caption; each cell must have a role."""

    def __init__(self):
        super().__init__()
        self.tables, self.rows, self.cell, self.caption = {}, None, None, None
        self.heading = False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "table":
            assert attributes.get("role") == "table", attributes
            self.rows = []
        elif tag == "caption":
            self.heading = True
        elif tag == "tr":
            assert attributes.get("role") == "row", attributes
            self.rows.append([])
        elif tag in ("td", "th"):
            assert attributes.get("role") in ("cell", "rowheader", "columnheader"), (tag, attributes)
            assert (attributes["role"] == "cell") == (tag == "td"), attributes
            self.rows[-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None
        elif tag == "caption":
            self.heading = False

    def handle_data(self, text):
        if self.heading:
            self.tables[text] = self.rows
        elif self.cell:
            self.rows[-1][-1] += text


def read(html):
    tables = Tables()
    tables.feed(html)
    return tables.tables


def check_page(c, width):
    html, console = look(f"http://{c.http}/", width, 1400, "--dump-dom")
    assert not console, console
    tables = read(html)
    groups = {row[0]: row for row in tables["Groups of workers"]}
    assert groups["w0"][1:3] == ["READY", "smol"], groups
    classes = {row[0]: row for row in tables["Classes on each group"]}
    assert set(classes) >= {"full on w0", "logs on w0"}, classes
    assert re.fullmatch(r"\d+\.\d %", classes["logs on w0"][3]) and classes["logs on w0"][3] != "0.0 %", classes
    checks = {row[0] for row in tables["What is watched"]}
    assert {"ECR, executed over expected", "PES, path efficiency", "PSR, path success"} <= checks, checks
    decided = tables["Requests that ended lately and how they were judged"]
    assert any(row[3] == "logs" and "certified" in row[8] for row in decided), decided
    assert re.search(r'id="state" class="badge (good|bad)"', html), html[:3000]


def check_picture(c, width):
    """It is drawn at that width."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.png")
        look(f"http://{c.http}/live", width, 900, f"--screenshot={path}", "--hide-scrollbars")
        size = os.path.getsize(path)
        with open(path, "rb") as f:
            head = f.read(24)
    assert int.from_bytes(head[16:20], "big") == width and size > 20000, (head, size)


def the_page_shows_the_cluster():
    browser()
    folder = tempfile.mkdtemp(prefix="lacuna-plan-")
    try:
        plan = write_plan(folder, [("logs", "A7,A25", {"structured": ("standard", 0.012, 0.029)})])
        with Cluster(workers=1, worker_arguments=["--plan", plan]) as c:
            c.answer(chat(f"Summarise this log.\n{LOG}", max_tokens=8))
            c.answer(chat("What is the capital of France?", max_tokens=8))
            for width in (375, 1280):
                check_page(c, width)
                check_picture(c, width)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def the_page_names_what_is_wrong():
    browser()
    with Cluster(workers=0) as c:
        html, console = look(f"http://{c.http}/live", 375, 800, "--dump-dom")
        assert not console, console
        assert "not well: Groups ready" in html, html[-3000:]
        row = next(row for row in read(html)["What is watched"] if row[0] == "Groups ready")
        assert row[2] == "no" and "no_group" in row[4], row
        assert "No group yet" in html
        assert json.loads(c.get("/healthz")[1])["well"] is False


main(the_page_shows_the_cluster, the_page_names_what_is_wrong)
