"""Labelled texts to measure the input type on; never learned from. Other formats, content, words and
lengths than samples.py.

    heldout.py SEED PER_KIND > pack"""
import json
import random
import sys

TEXT = {
    "en": "Most of the houses on our street were built by people who never meant to stay. My grandmother used to tell me so "
          "while she peeled apples at the kitchen table. \"They came for the mill,\" she said, \"and when the mill closed they "
          "forgot to go.\" I think of that whenever somebody asks where I am from, which happens more often now that I have "
          "moved away. Ask me instead what I miss: the smell of the canal in August; the bell at six; a dog that belonged to "
          "nobody. Yesterday's meeting, by contrast, left me with little hope. The committee talked for three hours (with two "
          "breaks) and decided to decide in June. Well, that's that.",
    "de": "Als die Nachbarin klingelte, stand der Kuchen noch im Ofen. „Riecht es hier verbrannt?“, fragte sie, und ich musste "
          "lachen. Seit drei Jahren wohnen wir Tür an Tür, doch richtig kennengelernt haben wir uns erst im letzten Winter, als "
          "der Strom ausfiel. Man sagt ja, dass Not verbindet. Ob das stimmt, weiß ich nicht; Kerzen jedenfalls verbinden. "
          "Heute wollen wir gemeinsam über den Hof reden, über die Fahrräder, die Mülltonnen und den Lärm.",
    "fr": "Quand le train s'arrêta en pleine campagne, personne ne s'étonna vraiment. Il pleuvait depuis l'aube, et les "
          "voyageurs regardaient les champs avec cette patience qu'on ne trouve qu'en automne. Une femme sortit un livre ; un "
          "enfant demanda s'il y avait des loups. « Pas ici », répondit son père. On attendit longtemps. Puis, sans annonce, "
          "le convoi repartit vers la mer, lentement, comme à regret.",
    "it": "La bottega di mio zio si trovava in fondo al vicolo, dove il sole arrivava soltanto a giugno. Vendeva corde, lampade "
          "e consigli; questi ultimi erano gratuiti e, a dire il vero, raramente utili. Chi entrava per comprare un chiodo usciva "
          "con una storia. Perché lo facesse non l'ho mai capito, ma credo che la solitudine c'entrasse qualcosa.",
    "ja": "祖母の家は駅から歩いて二十分ほどの丘の上にあった。夏になると、庭の柿の木の下で本を読むのが好きだった。風が吹くたびに葉が揺れ、"
          "文字の上に影が落ちた。「もうすぐ雨が降るよ」と祖母はいつも言ったが、当たったことは一度もない。それでも私は傘を持って帰った。"
          "今ではその家も、柿の木もない。残っているのは、一本の古い傘だけである。",
    "ru": "Соседка позвонила в дверь, когда пирог ещё стоял в печи. «У вас не горит?» — спросила она, и я рассмеялся. Мы живём "
          "рядом третий год, но по-настоящему познакомились только прошлой зимой, когда отключили свет. Говорят, беда сближает. "
          "Не знаю, правда ли это; свечи, во всяком случае, сближают. Сегодня мы собираемся обсудить двор, велосипеды и шум.",
    "zh": "老街尽头有一家修表铺，门口总坐着一只灰猫。店主姓林，话不多，手却很巧。人们把停了多年的钟表送来，他听一听，摇一摇，便知道毛病在哪里。"
          "有人问他为什么不搬到热闹的地方去，他说：“时间在哪里都一样走。”去年冬天他病了，铺子关了两个月，整条街都觉得安静得不习惯。",
}
FRUIT = "Apfelsine kumquat durian lychee medlar quince tamarind yuzu pomelo sloe".split()
PLACES = "Oslo Quito Lagos Turin Hanoi Perth Zagreb Cork Izmir Recife".split()


def cut(r, lang, least=1):
    ends = "。" if lang in ("ja", "zh") else ". "
    parts = [p for p in TEXT[lang].split(ends) if p]
    a = r.randint(0, len(parts) - least)
    b = r.randint(a + least, len(parts))
    return ends.join(parts[a:b]) + ends.strip()


def essay(r, lang, n=None):
    paragraphs = [cut(r, lang) for _ in range(n or r.randint(1, 7))]
    if r.random() < 0.3 and lang not in ("ja", "zh"):
        width = r.choice([50, 66, 78])
        paragraphs = ["\n".join(p[i:i + width] for i in range(0, len(p), width)) for p in paragraphs]
    return "\n\n".join(paragraphs)


def essay_md(r):
    return "# %s\n\n%s\n\n## %s\n\n* %s\n* %s\n\n%s" % (cut(r, "en")[:30], essay(r, "en", 2), r.choice(PLACES), cut(r, "en", 1)[:80], cut(r, "en", 1)[:90], essay(r, "en", 2))


def reply_mail(r):
    quoted = "\n".join("> " + line for line in essay(r, "en", 1).split("\n"))
    return ("Return-Path: <%s@mail.example>\nReceived: from mx%d.example (203.0.113.%d)\nMessage-ID: <%x@mail.example>\nSubject: Re: %s\n\nHi %s,\n\n%s\n\n%s\n\n%s\n\n-- \n%s\nPhone: +47 22 %d"
            % (r.choice(FRUIT).lower(), r.randint(1, 4), r.randint(1, 250), r.getrandbits(60), cut(r, "en")[:40], r.choice(PLACES), essay(r, "en", 2), quoted, essay(r, "en", 1), r.choice(PLACES), r.randint(10**5, 10**6)))


def whatsapp(r, n):
    lines = []
    for i in range(n):
        text = cut(r, r.choice(["en", "en", "de", "it"]))
        lines.append("12/%02d/24, %d:%02d PM - %s: %s" % (1 + i // 60, 1 + i // 60 % 12, i % 60, r.choice(PLACES[:3]), text[:r.randint(20, 120)]))
    return "\n".join(lines)


def irc(r, n):
    return "\n".join("<%s> %s" % (r.choice(FRUIT[:4]), cut(r, "en")[:r.randint(10, 90)].lower()) for _ in range(n))


def turns(r, n):
    return "\n\n".join("%s: %s" % (["User", "Assistant"][i % 2], cut(r, r.choice(["en", "fr"]))) for i in range(n))


def nginx_error(r, n):
    return "\n".join("2024/11/%02d %02d:%02d:%02d [%s] %d#0: *%d open() \"/srv/www/%s.ico\" failed (2: No such file or directory), client: 192.0.2.%d, server: _, request: \"GET /%s HTTP/2.0\""
                     % (r.randint(1, 30), r.randint(0, 23), i % 60, r.randint(0, 59), r.choice(["error", "warn", "crit"]), r.randint(10, 999), r.randint(1, 9999), r.choice(FRUIT), r.randint(1, 250), r.choice(FRUIT)) for i in range(n))


def postgres(r, n):
    return "\n".join("2024-11-05 14:%02d:%02d.%03d UTC [%d] %s:  %s" % (i % 60, r.randint(0, 59), r.randint(0, 999), r.randint(900, 9000), r.choice(["LOG", "LOG", "ERROR", "STATEMENT", "FATAL"]),
                     r.choice(["checkpoint complete: wrote %d buffers (0.%d%%)", "duration: %d.%d ms", "could not receive data from client: code %d.%d", "connection authorized: user=app%d database=d%d"]) % (r.randint(1, 999), r.randint(0, 99))) for i in range(n))


def glog(r, n):
    return "\n".join("%s1105 14:%02d:%02d.%06d %5d %s.go:%d] %s %s is %s after %d.%ds" % (r.choice("IIWE"), i % 60, r.randint(0, 59), r.randint(0, 999999), r.randint(1, 99), r.choice(FRUIT), r.randint(10, 900),
                     r.choice(["Pod", "Node", "Volume"]), r.choice(FRUIT), r.choice(["ready", "gone", "bound"]), r.randint(0, 99), r.randint(0, 9)) for i in range(n))


def json_log(r, n):
    return "\n".join(json.dumps({"time": 1730000000 + i, "severity": r.choice(["NOTICE", "ERR"]), "message": "%s went to %s" % (r.choice(FRUIT), r.choice(PLACES)), "ctx": {"n": r.randint(0, 9)}}, separators=(",", ":")) for i in range(n))


def gc_log(r, n):
    return "\n".join("[%d.%03ds][info][gc] GC(%d) Pause Young (Normal) %dM->%dM(%dM) %d.%03dms" % (i, r.randint(0, 999), i, r.randint(100, 900), r.randint(10, 99), 1024, r.randint(1, 20), r.randint(0, 999)) for i in range(n))


def csv_quoted(r, n):
    return "Id,Ort,Bemerkung,Betrag\r\n" + "\r\n".join('%d,"%s","%s, %s",%d.%02d' % (i, r.choice(PLACES), r.choice(FRUIT), r.choice(["frisch", "alt"]), r.randint(1, 999), r.randint(0, 99)) for i in range(n))


def csv_numbers(r, n):
    k = r.randint(4, 12)
    return ",".join("sensor%d" % i for i in range(k)) + "\n" + "\n".join(",".join("%.4f" % r.gauss(0, 9) for _ in range(k)) for _ in range(n))


def csv_people(r, n):
    return "last;first;city;born;phone\n" + "\n".join("%s;%s;%s;%d-%02d-%02d;+%d %d" % (r.choice(FRUIT).title(), r.choice(PLACES), r.choice(PLACES), r.randint(1930, 2010), r.randint(1, 12), r.randint(1, 28), r.randint(30, 99), r.randint(10**6, 10**7)) for _ in range(n))


def tsv_words(r, n):
    return "gene\tregion\tp\tnote\n" + "\n".join("%s%d\t%s\t%.2e\t%s %s" % (r.choice(FRUIT)[:3].upper(), r.randint(1, 99), r.choice(PLACES), r.random(), r.choice(FRUIT), r.choice(FRUIT)) for _ in range(n))


def geojson(r, n):
    return json.dumps({"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"name": r.choice(PLACES), "kind": r.choice(FRUIT)}, "geometry": {"type": "Point", "coordinates": [r.uniform(-180, 180), r.uniform(-90, 90)]}} for _ in range(max(1, n // 8))]}, indent=r.choice([None, 1, 2, "\t"]))


def api_json(r, n):
    return json.dumps([{"order_id": "%08x" % r.getrandbits(32), "customer": {"first": r.choice(PLACES), "comment": cut(r, "en")[:60]}, "lines": [{"sku": r.choice(FRUIT), "qty": r.randint(1, 9)} for _ in range(3)]} for _ in range(max(1, n // 10))], indent=r.choice([None, 2]))


def kube(r, n):
    return "\n---\n".join("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\n  labels:\n    app: %s\nspec:\n  replicas: %d\n  template:\n    spec:\n      containers:\n      - name: %s\n        image: registry.example/%s:%d.%d\n        ports:\n        - containerPort: %d"
                          % (r.choice(FRUIT), r.choice(FRUIT), r.randint(1, 9), r.choice(FRUIT), r.choice(FRUIT), r.randint(0, 9), r.randint(0, 9), r.randint(1000, 9999)) for _ in range(max(1, n // 12)))


def ci_yaml(r, n):
    return "# build of %s\non: [push]\nenv:\n  CITY: %s\njobs:\n" % (r.choice(FRUIT), r.choice(PLACES)) + "\n".join("  %s%d:\n    runs-on: linux\n    timeout-minutes: %d\n    needs: [%s]" % (r.choice(FRUIT), i, r.randint(1, 60), r.choice(FRUIT)) for i in range(max(1, n // 4)))


def rss(r, n):
    return "<rss version=\"2.0\"><channel>\n" + "\n".join("<item><title>%s in %s</title><link>https://news.example/%d</link><guid isPermaLink=\"false\">%x</guid></item>" % (r.choice(FRUIT), r.choice(PLACES), r.randint(1, 999), r.getrandbits(40)) for _ in range(n)) + "\n</channel></rss>"


def pom(r, n):
    return "<project>\n\t<dependencies>\n" + "\n".join("\t\t<dependency>\n\t\t\t<groupId>org.%s</groupId>\n\t\t\t<artifactId>%s</artifactId>\n\t\t\t<version>%d.%d</version>\n\t\t</dependency>" % (r.choice(FRUIT), r.choice(FRUIT), r.randint(0, 9), r.randint(0, 30)) for _ in range(max(1, n // 5))) + "\n\t</dependencies>\n</project>"


def kernel_c(r, n):
    return "// SPDX-License-Identifier: GPL-2.0\n/*\n * Driver for the %s bus.\n *\n * %s\n */\n#include <linux/module.h>\n#define %s_MAX\t(1U << %d)\n\n" % (r.choice(FRUIT), cut(r, "en"), r.choice(FRUIT).upper(), r.randint(1, 30)) + "\n".join(
        "int %s_probe(struct device *dev,\n\t\t  const void *match)\n{\n\tstruct %s *p = dev_get_drvdata(dev);\n\tint ret;\n\n\tif (!p)\n\t\treturn -ENODEV;\n\n\t/* %s */\n\tret = clk_enable(p->clk[%d]);\n\tif (ret < 0)\n\t\tgoto out;\n\nout:\n\treturn ret;\n}\n" % (r.choice(FRUIT).lower(), r.choice(FRUIT), cut(r, "en")[:50], r.randint(0, 7)) for _ in range(max(1, n // 12)))


def class_py(r, n):
    return "#!/usr/bin/env python3\n# %s\nimport dataclasses\n\n" % cut(r, "en")[:60] + "\n\n".join(
        "@dataclasses.dataclass\nclass %s(Base):\n    \"\"\"%s\n\n    Returns nothing.\n    \"\"\"\n    weight: float = %d.%d\n\n    @property\n    def ripe(self) -> bool:\n        # %s\n        return self.weight > %d and not self.%s\n\n    async def eat(self, *args, **kwargs):\n        try:\n            await self.%s(args[0])\n        except ValueError as e:\n            log.error(f\"bad {e}\")\n            raise" % (
            r.choice(FRUIT).title(), cut(r, "en"), r.randint(0, 9), r.randint(0, 9), cut(r, "en")[:40], r.randint(1, 99), r.choice(FRUIT), r.choice(FRUIT)) for _ in range(max(1, n // 16)))


def cte_sql(r, n):
    return "\n\n".join("-- %s\nWITH ranked AS (\n  SELECT %s.city, amount,\n         ROW_NUMBER() OVER (PARTITION BY city ORDER BY amount DESC) AS rn\n  FROM %s\n  WHERE sold_at BETWEEN '2024-01-01' AND '2024-0%d-30'\n)\nSELECT city, SUM(amount)\nFROM ranked\nWHERE rn <= %d\nGROUP BY city\nHAVING SUM(amount) > %d;" % (
        cut(r, "en")[:50], r.choice(FRUIT), r.choice(FRUIT), r.randint(1, 9), r.randint(1, 20), r.randint(1, 999)) for _ in range(max(1, n // 12)))


def ddl_sql(r, n):
    return "BEGIN;\n" + "\n".join("create table if not exists %s_%d (\n    id bigserial primary key,\n    city varchar(%d) not null default '%s',\n    weight numeric(10, 2),\n    unique (city)\n);\ncreate index on %s_%d (city);\ninsert into %s_%d (city, weight) values ('%s', %d.5);" % (
        t, i, r.randint(8, 99), r.choice(PLACES), t, i, t, i, r.choice(PLACES), r.randint(1, 99)) for i, t in ((i, r.choice(FRUIT)) for i in range(max(1, n // 8)))) + "\nCOMMIT;"


def rust(r, n):
    return "use std::collections::HashMap;\n\n" + "\n\n".join("pub fn %s(map: &HashMap<String, u%d>) -> Option<usize> {\n    let mut best = None;\n    for (k, v) in map.iter() {\n        if *v > %d {\n            best = Some(k.len());\n        }\n    }\n    best\n}" % (r.choice(FRUIT).lower(), r.choice([8, 32]), r.randint(1, 99)) for _ in range(max(1, n // 9)))


def md_report(r, n):
    rows = "\n".join("| %s | %d | %.1f%% | %s |" % (r.choice(PLACES), r.randint(1, 999), r.random() * 100, r.choice(FRUIT)) for _ in range(max(2, n // 2)))
    table = "| City | Count | Share | Best |\n|:-----|------:|------:|:----:|\n" + rows
    text = ""
    want = len(table) * r.uniform(0.5, 1.6)
    while len(text) < want:
        text += cut(r, r.choice(["en", "en", "de", "fr"])) + "\n\n"
    return "## %s in %s\n\n%s%s\n\n*%s*" % (r.choice(FRUIT), r.choice(PLACES), text, table, cut(r, "en")[:60])


def ticket(r, n):
    """A letter with a log in it."""
    log = glog(r, max(3, n // 2))
    text = ""
    want = len(log) * r.uniform(0.6, 1.6)
    while len(text) < want:
        text += cut(r, "en") + " "
    return "Hello,\n\n%s\n\n%s\n\nThank you for your help.\n%s" % (text, log, r.choice(PLACES))


def all_samples(seed, per_kind):
    r = random.Random(seed)
    size = lambda: int(5 * 2 ** r.uniform(0, 6))
    S, U, H, C = "structured", "unstructured", "hybrid", "code"
    kinds = [(S, f) for f in (nginx_error, postgres, glog, json_log, gc_log, csv_quoted, csv_numbers, csv_people, tsv_words, geojson, api_json, kube, ci_yaml, rss, pom)]
    kinds += [(C, f) for f in (kernel_c, class_py, cte_sql, ddl_sql, rust)] + [(H, md_report), (H, ticket), (U, whatsapp), (U, irc), (U, turns)]
    for label, f in kinds:
        for _ in range(per_kind):
            yield label, f.__name__, f(r, size()).encode()
    for _ in range(per_kind):
        yield U, "reply_mail", reply_mail(r).encode()
        yield U, "essay_md", essay_md(r).encode()
        for lang in TEXT:
            yield U, "essay_" + lang, essay(r, lang).encode()


if __name__ == "__main__":
    import samples
    samples.write(all_samples(int(sys.argv[1]), int(sys.argv[2])), sys.stdout.buffer)
