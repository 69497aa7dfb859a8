"""Labelled texts to learn the input type from. Made by seed: words and figures are drawn, forms are
those of the real thing. heldout.py has the ones for measuring; the two share no generator, word list
or kind of content."""
import json
import random
import sys

EN = ("the river town had waited for rain since early spring and people began to talk about leaving; "
      "she opened the window because it was warm and heard children in the yard below; we should "
      "think again about what this decision means for those who cannot vote; nobody knew why the old "
      "bridge had been closed, although everyone had an opinion about it; my brother says that bread "
      "tastes better when you wait a day; it is not clear whether the law applies to ships at sea").split(";")
DE = ("der alte Hafen lag still, als wir am Morgen ankamen; niemand wusste, warum die Brücke gesperrt "
      "war, obwohl jeder eine Meinung hatte; sie öffnete das Fenster, weil es warm geworden war; wir "
      "sollten noch einmal über diese Entscheidung nachdenken; mein Bruder sagt, dass Brot am zweiten "
      "Tag besser schmeckt; es ist nicht klar, ob das Gesetz auch für Schiffe gilt").split(";")
FR = ("le vieux port était calme quand nous sommes arrivés; personne ne savait pourquoi le pont était "
      "fermé, bien que chacun eût un avis; elle ouvrit la fenêtre parce qu'il faisait chaud; nous "
      "devrions réfléchir encore à cette décision; mon frère dit que le pain est meilleur le "
      "lendemain; il n'est pas clair si la loi s'applique aux navires").split(";")
ES = ("el puerto viejo estaba en calma cuando llegamos; nadie sabía por qué el puente estaba cerrado, "
      "aunque todos tenían una opinión; abrió la ventana porque hacía calor; deberíamos pensar otra "
      "vez en esta decisión; mi hermano dice que el pan sabe mejor al día siguiente; no está claro si "
      "la ley se aplica a los barcos").split(";")
RU = ("старый порт был тих, когда мы приехали утром; никто не знал, почему мост закрыт, хотя у каждого "
      "было своё мнение; она открыла окно, потому что стало тепло; нам стоит ещё раз подумать об этом "
      "решении; мой брат говорит, что хлеб вкуснее на второй день; неясно, относится ли закон к "
      "кораблям").split(";")
ZH = "早晨我们到达时，旧港口很安静。没有人知道桥为什么关闭，虽然每个人都有看法。她打开窗户，因为天气变暖了。我们应该再考虑一下这个决定。我哥哥说面包第二天更好吃。目前还不清楚这项法律是否适用于船只。".split("。")[:-1]
WORDS = "alpha order billing gate north panel cache user token valve route mint field stage river plan".split()
NAMES = "Anna Bob Carla Deniz Erik Fatima Goran Hana Ivo Julia".split()
ASKS = ["Summarize this.", "What does the following show?", "Extract all error codes from the text below.",
        "Please look at this and tell me what is wrong:", "Fasse das zusammen:", "Compare the entries.", "", "", ""]


def sentences(r, bank, n):
    out = []
    for _ in range(n):
        s = r.choice(bank).strip()
        if r.random() < 0.4 and bank is not ZH:
            s += ", " + r.choice(["and", "but", "while"]) + " " + r.choice(bank).strip() if bank is EN else ", " + r.choice(bank).strip()
        out.append((s[0].upper() + s[1:]) + ("。" if bank is ZH else r.choice([".", ".", ".", "!", "?"])))
    return ("" if bank is ZH else " ").join(out)


def wrap(text, width):
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = (line + " " + word).strip()
    return "\n".join(lines + [line])


def prose(r, bank, n=None):
    parts = [sentences(r, bank, r.randint(1, 6)) for _ in range(n or r.randint(1, 8))]
    if r.random() < 0.4 and bank is not ZH:
        parts = [wrap(p, r.choice([60, 72, 80])) for p in parts]
    return "\n\n".join(parts)


def stamp(r, i):
    return "2025-0%d-%02dT%02d:%02d:%02d" % (r.randint(1, 9), 1 + i % 28, i // 60 % 24, i % 60, r.randint(0, 59))


def log_app(r, n):
    msgs = ["connection from 10.0.%d.%d accepted", "request %d took %d ms", "cache miss for key user:%d shard=%d",
            "retrying job %d attempt %d", "disk sda%d at %d%%"]
    return "\n".join("%s %s [%s] %s" % (stamp(r, i).replace("T", " "), r.choice(["INFO", "INFO", "WARN", "ERROR", "DEBUG"]),
                     r.choice(WORDS), r.choice(msgs) % (r.randint(0, 255), r.randint(0, 255))) for i in range(n))


def log_sys(r, n):
    return "\n".join("Mar %2d %02d:%02d:%02d host%d %s[%d]: %s" % (1 + i % 28, i // 60 % 24, i % 60, r.randint(0, 59), r.randint(1, 3),
                     r.choice(["sshd", "kernel", "cron", "systemd"]), r.randint(100, 9999),
                     r.choice(["Failed password for root from 10.1.2.%d port %d ssh2", "session opened for user u%d by (uid=%d)",
                               "Started unit %d of %d", "eth%d: link up, %d Mbps"]) % (r.randint(0, 9), r.randint(1000, 60000))) for i in range(n))


def log_web(r, n):
    return "\n".join('10.%d.%d.7 - - [%02d/Mar/2025:10:%02d:%02d +0000] "%s /%s/%d HTTP/1.1" %d %d "-" "curl/8.%d"' % (
        r.randint(0, 9), r.randint(0, 255), 1 + i % 28, i % 60, r.randint(0, 59), r.choice(["GET", "POST"]), r.choice(WORDS),
        r.randint(1, 99), r.choice([200, 200, 404, 500]), r.randint(90, 90000), r.randint(0, 9)) for i in range(n))


def log_kv(r, n):
    return "\n".join("ts=%sZ level=%s component=%s msg=\"%s %s\" dur=%dms id=%d" % (stamp(r, i), r.choice(["info", "warn", "error"]),
                     r.choice(WORDS), r.choice(WORDS), r.choice(WORDS), r.randint(1, 900), r.randint(1, 10**6)) for i in range(n))


def table(r, n, sep):
    cols = r.randint(3, 8)
    rows = [sep.join(r.choice(WORDS) + "_" + str(k) for k in range(cols))]
    for i in range(n):
        rows.append(sep.join(r.choice([str(r.randint(0, 9999)), "%.2f" % (r.random() * 100), r.choice(WORDS), r.choice(NAMES),
                                       "2025-0%d-1%d" % (r.randint(1, 9), r.randint(0, 9))]) for _ in range(cols)))
    return "\n".join(rows)


def value(r, depth):
    if depth == 0 or r.random() < 0.5:
        return r.choice([r.randint(0, 9999), r.random(), r.choice(WORDS), r.choice(NAMES), True, None, " ".join(r.sample(WORDS, 3))])
    if r.random() < 0.5:
        return {r.choice(WORDS) + str(k): value(r, depth - 1) for k in range(r.randint(1, 6))}
    return [value(r, depth - 1) for _ in range(r.randint(1, 5))]


def obj(r, n):
    return {"items": [{"id": i, "name": r.choice(NAMES), "data": value(r, 2)} for i in range(max(1, n // 6))], "total": n}


def jsonl(r, n):
    return "\n".join(json.dumps({"t": stamp(r, i), "user": r.choice(NAMES), "n": r.randint(0, 999), "tag": r.choice(WORDS)}) for i in range(n))


def yaml(r, n):
    out = []
    while len(out) < n:
        out.append(r.choice(WORDS) + str(len(out)) + ":")
        for _ in range(r.randint(1, 5)):
            out.append("  %s_%s: %s" % (r.choice(WORDS), r.choice(WORDS), r.choice([str(r.randint(0, 99)), '"' + r.choice(WORDS) + '"', r.choice(WORDS), "true"])))
        if r.random() < 0.4:
            out.append("  list:")
            out += ["    - " + r.choice(WORDS) for _ in range(r.randint(1, 4))]
    return "\n".join(out)


def xml(r, n):
    rows = "\n".join('  <%s id="%d">\n    <name>%s</name>\n    <amount currency="EUR">%.2f</amount>\n  </%s>' % (
        "row", i, r.choice(NAMES), r.random() * 100, "row") for i in range(max(1, n // 4)))
    return '<?xml version="1.0"?>\n<rows>\n%s\n</rows>' % rows


def md_table(r, n):
    cols = r.randint(3, 5)
    rows = ["| " + " | ".join(r.choice(WORDS) for _ in range(cols)) + " |", "|" + " --- |" * cols]
    rows += ["| " + " | ".join(r.choice([r.choice(WORDS), str(r.randint(0, 999))]) for _ in range(cols)) + " |" for _ in range(n)]
    return "\n".join(rows)


def mixed(r, data):
    """Prose and data, each at least about a quarter of the bytes."""
    share = r.uniform(0.35, 0.65)
    text = prose(r, r.choice([EN, EN, DE, FR, ES, RU]), 1)
    while len(text) < len(data) * share / (1 - share):
        text += "\n\n" + sentences(r, EN, 2)
    if len(text) > len(data) * 2.2:
        text = text[:max(60, len(data) * 2)].rsplit(" ", 1)[0] + "."
    parts = text.split("\n\n")
    at = r.randint(1, len(parts))
    head = "# " + r.choice(WORDS).title() + " report\n\n" if r.random() < 0.6 else ""
    return head + "\n\n".join(parts[:at]) + "\n\n" + data + "\n\n" + "\n\n".join(parts[at:])


def noisy(r):
    """Prose as people really keep it: up to an eighth of it is addresses, commands, settings."""
    parts = prose(r, r.choice([EN, EN, DE, FR, ES, RU]), r.randint(4, 12)).split("\n\n")
    room = sum(map(len, parts)) * r.uniform(0.02, 0.13)
    odd = ["    %s --%s=%d %s/%s.txt" % (r.choice(WORDS), r.choice(WORDS), r.randint(1, 99), r.choice(WORDS), r.choice(WORDS)),
           "http://example.org/%s/%d?x=%d" % (r.choice(WORDS), r.randint(1, 99), r.randint(1, 99)),
           "    %s(%d, %s);" % (r.choice(WORDS), r.randint(1, 99), r.choice(WORDS)), "--------------------", "%s=%d" % (r.choice(WORDS), r.randint(1, 9))]
    while room > 20:
        line = r.choice(odd)
        parts.insert(r.randint(1, len(parts)), line)
        room -= len(line)
    return "\n\n".join(parts)


def commented(r, n):
    """Code under much comment, some of it where a comment's sign was lost by quoting."""
    code = r.choice([c_code, python, sql])(r, n)
    return wrap(sentences(r, EN, 1), 70)[:max(20, len(code) // 4)] + "\n\n" + code


def mail(r):
    return "From: %s <%s@example.org>\nTo: %s\nSubject: %s\nDate: Mon, 3 Mar 2025 10:0%d:00 +0100\n\nDear %s,\n\n%s\n\nBest regards\n%s" % (
        r.choice(NAMES), r.choice(WORDS), r.choice(NAMES), sentences(r, EN, 1), r.randint(0, 9), r.choice(NAMES), prose(r, r.choice([EN, DE]), r.randint(1, 4)), r.choice(NAMES))


def chat(r, n):
    two = r.sample(NAMES, r.randint(2, 4))
    style = r.randint(0, 2)
    out = []
    for i in range(max(3, n // 2)):
        who = r.choice(two)
        text = sentences(r, EN, 1)
        text = text.lower() if r.random() < 0.4 else text
        out.append(["%s: %s" % (who, text), "[%02d:%02d] %s: %s" % (i // 60 % 24, i % 60, who, text), "<%s> %s" % (who.lower(), text)][style])
    return "\n".join(out)


def c_code(r, n):
    out = ["#include <stdio.h>", "#include \"%s.h\"" % r.choice(WORDS), ""]
    while len(out) < n:
        a, b, c = r.choice(WORDS), r.choice(WORDS), r.choice(WORDS)
        if r.random() < 0.4:
            out.append("/* %s */" % sentences(r, EN, 1))
        out += ["static int %s_%s(struct %s *%s, int n)" % (a, b, c, b), "{", "    int total = 0;",
                "    for (int i = 0; i < n; i++) {", "        if (%s->items[i] == %d)" % (b, r.randint(0, 9)),
                "            continue;", "        total += %s->items[i] * %d; // %s" % (b, r.randint(2, 99), r.choice(WORDS)), "    }",
                "    return total;", "}", ""]
    return "\n".join(out)


def python(r, n):
    out = ["import os", "from %s import %s" % (r.choice(WORDS), r.choice(WORDS)), ""]
    while len(out) < n:
        a, b = r.choice(WORDS), r.choice(WORDS)
        out += ["", "def %s_%s(self, %s, limit=%d):" % (a, b, b, r.randint(1, 99))]
        if r.random() < 0.5:
            out.append('    """%s"""' % sentences(r, EN, 1))
        out += ["    result = []", "    for item in %s:" % b, "        if item.%s > limit:  # %s" % (a, r.choice(WORDS)),
                "            result.append(item['%s'])" % a, "    return sorted(result)"]
    return "\n".join(out)


def sql(r, n):
    out = []
    while len(out) < n:
        t, u, a = r.choice(WORDS), r.choice(WORDS), r.choice(WORDS)
        out += r.choice([
            ["SELECT t.%s, COUNT(*) AS n" % a, "FROM %s t" % t, "JOIN %s u ON u.id = t.%s_id" % (u, u), "WHERE t.%s > %d" % (a, r.randint(1, 99)),
             "GROUP BY t.%s" % a, "ORDER BY n DESC;", ""],
            ["CREATE TABLE %s (" % t, "    id INTEGER PRIMARY KEY,", "    %s TEXT NOT NULL," % a, "    %s_id INTEGER REFERENCES %s(id)" % (u, u), ");", ""],
            ["insert into %s (id, %s) values" % (t, a), "  (%d, '%s')," % (r.randint(1, 9), u), "  (%d, '%s');" % (r.randint(1, 9), t), ""],
            ["UPDATE %s SET %s = %d WHERE id = %d;" % (t, a, r.randint(1, 9), r.randint(1, 999)), ""]])
    return "\n".join(out)


def js(r, n):
    out = []
    while len(out) < n:
        a, b = r.choice(WORDS), r.choice(WORDS)
        out += ["export function %s%s(%s) {" % (a, b.title(), b), "  const %s = %s.map((x) => x.%s);" % (a, b, a),
                "  if (!%s.length) {" % a, "    throw new Error('no %s');" % b, "  }", "  return { %s, total: %s.length };" % (a, a), "}", ""]
    return "\n".join(out)


def fenced(r, code, lang):
    return "```%s\n%s\n```" % (lang, code)


def all_samples(seed, per_kind):
    r = random.Random(seed)
    size = lambda: int(4 * 2 ** r.uniform(0, 6))
    ask = lambda t: (lambda a: a + "\n\n" + t if a else t)(r.choice(ASKS) if len(t) > 400 else "")
    S, U, H, C = "structured", "unstructured", "hybrid", "code"
    kinds = [
        (S, "log_app", lambda: ask(log_app(r, size()))), (S, "log_sys", lambda: ask(log_sys(r, size()))),
        (S, "log_web", lambda: ask(log_web(r, size()))), (S, "log_kv", lambda: ask(log_kv(r, size()))),
        (S, "csv", lambda: ask(table(r, size(), ","))), (S, "csv_semicolon", lambda: table(r, size(), ";")),
        (S, "tsv", lambda: ask(table(r, size(), "\t"))), (S, "json", lambda: ask(json.dumps(obj(r, size()), indent=r.choice([2, 4])))),
        (S, "json_min", lambda: ask(json.dumps(obj(r, size())))), (S, "jsonl", lambda: jsonl(r, size())),
        (S, "yaml", lambda: ask(yaml(r, size()))), (S, "xml", lambda: ask(xml(r, size()))),
        (U, "mail", lambda: mail(r)), (U, "chat", lambda: chat(r, size())), (U, "chat2", lambda: chat(r, size())),
        (U, "question", lambda: sentences(r, r.choice([EN, DE, FR, ES, RU, ZH]), 1)),
        (H, "md_table", lambda: mixed(r, md_table(r, size()))), (H, "md_table2", lambda: mixed(r, md_table(r, size()))),
        (H, "text_csv", lambda: mixed(r, table(r, size(), ","))), (H, "text_log", lambda: mixed(r, log_app(r, size()))),
        (H, "text_json", lambda: mixed(r, fenced(r, json.dumps(obj(r, size()), indent=2), "json"))),
        (H, "text_code", lambda: mixed(r, fenced(r, python(r, size()), "python"))),
        (C, "c", lambda: ask(c_code(r, size()))), (C, "python", lambda: ask(python(r, size()))),
        (U, "noisy", lambda: noisy(r)), (U, "noisy2", lambda: noisy(r)), (C, "commented", lambda: commented(r, size() + 12)),
        (C, "sql", lambda: ask(sql(r, size()))), (C, "js", lambda: ask(js(r, size()))),
    ] + [(U, "prose_" + n, (lambda b: lambda: prose(r, b))(b)) for n, b in
         [("en", EN), ("de", DE), ("fr", FR), ("es", ES), ("ru", RU), ("zh", ZH)]]
    for label, kind, make in kinds:
        for _ in range(per_kind):
            yield label, kind, make().encode()


def write(samples, out):
    for label, kind, text in samples:
        out.write(b"=== %s %s %d\n" % (label.encode(), kind.encode(), len(text)) + text + b"\n")


if __name__ == "__main__":
    write(all_samples(int(sys.argv[1]), int(sys.argv[2])), sys.stdout.buffer)
