#!/usr/bin/env python3
"""Writes prompt sets of structured text for `lacuna-engine calibrate`: self-made documents of many
kinds, the same bytes for the same seed. Calibration and hold-out come from different generators with
different vocabularies; no document and no kind is in both.

    python3 make_prompts.py [--seed 1] [--documents 12] [--holdout-documents 6] [--requests 5] OUT_FOLDER
"""
import argparse
import json
import os
import random

# Words of the calibration documents. The hold-out has lists of its own, further down.
NOUNS = ("acorn anchor apple arrow atlas badge bamboo basin beacon birch bishop blade bloom bridge bronze brook "
         "canyon cargo castle cedar cherry chess cliff cloud clover cobalt comet copper coral cotton crane crystal "
         "dawn delta desert domino dragon dune eagle echo ember engine falcon feather fern finch fjord flint forest "
         "garden garnet glacier granite grove hammer harbor hazel heron hollow horizon indigo island ivory jasper "
         "juniper kernel kettle lagoon lantern laurel lemon lily linen lotus magnet maple marble meadow mercury mint "
         "mirror monsoon moss nectar nickel north oasis olive onyx opal orbit orchid otter oyster panther pearl pebble "
         "pepper pine planet plaza prairie quartz raven reef ridge river robin ruby saffron sage sapphire shadow "
         "silver solar sparrow spruce summit swan temple thunder tiger topaz tulip tundra velvet violet walnut willow "
         "winter wolf zephyr").split()


def word(r):
    return r.choice(NOUNS)


def words(r, n):
    return r.sample(NOUNS, n)


def ip(r):
    return f"{r.choice([10, 172, 192, 203])}.{r.randint(0, 255)}.{r.randint(0, 255)}.{r.randint(1, 254)}"


def hexa(r, n):
    return "".join(r.choice("0123456789abcdef") for _ in range(n))


class Clock:
    """A moment that only goes on."""

    def __init__(self, r):
        self.r, self.day, self.month, self.year = r, r.randint(1, 27), r.randint(1, 12), r.randint(2015, 2025)
        self.s = r.randint(0, 80000)
        self.pace = r.choice([1, 5, 60, 400])

    def step(self):
        self.s += self.r.randint(0, self.pace)
        if self.s >= 86400:
            self.s -= 86400
            self.day = self.day % 28 + 1
        return self

    def date(self):
        return f"{self.year}-{self.month:02d}-{self.day:02d}"

    def time(self):
        return f"{self.s // 3600:02d}:{self.s // 60 % 60:02d}:{self.s % 60:02d}"

    def syslog(self):
        names = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
        return f"{names[self.month - 1]} {self.day:2d} {self.time()}"


# ---- calibration ----

def package_log(r):
    names = [f"lib{word(r)}{r.randint(1, 9)}" if r.random() < .5 else word(r) + r.choice(["", "-dev", "-utils", "-common"])
             for _ in range(14)]
    c = Clock(r)
    arch = r.choice(["amd64", "arm64", "all"])
    while True:
        n = r.choice(names)
        v = f"{r.randint(0, 9)}.{r.randint(0, 30)}.{r.randint(0, 9)}-{r.randint(1, 5)}"
        for what in ("install", "status half-installed", "status unpacked", "configure", "status installed"):
            tail = f"{v} <none>" if what == "configure" else f"<none> {v}" if what == "install" else v
            yield f"{c.step().date()} {c.time()} {what} {n}:{arch} {tail}"


def syslog(r):
    host = word(r) + str(r.randint(1, 40))
    programs = [(p, r.randint(200, 32000)) for p in r.sample(["sshd", "cron", "kernel", "systemd", "dhclient", "postfix/smtpd", "ntpd", "sudo"], 5)]
    users, c = words(r, 6), Clock(r)
    while True:
        p, pid = r.choice(programs)
        text = r.choice([
            f"Accepted publickey for {r.choice(users)} from {ip(r)} port {r.randint(1024, 65535)} ssh2",
            f"Failed password for invalid user {r.choice(users)} from {ip(r)} port {r.randint(1024, 65535)}",
            f"session opened for user {r.choice(users)}(uid={r.randint(0, 2000)})",
            f"({r.choice(users)}) CMD (/usr/local/bin/{word(r)} --quiet)",
            f"DHCPACK from {ip(r)} (xid=0x{hexa(r, 8)})",
            f"connection closed by {ip(r)} after {r.randint(1, 900)} s",
            f"Started {word(r).capitalize()} {r.choice(['service', 'timer', 'socket'])}."])
        yield f"{c.step().syslog()} {host} {p}[{pid}]: {text}"


def access_log(r):
    paths = ["/" + "/".join(words(r, r.randint(1, 3))) + r.choice(["", ".html", ".png", ".js", "/"]) for _ in range(12)]
    agents = r.sample(["Mozilla/5.0 (X11; Linux x86_64)", "curl/7.88.1", "Wget/1.21", "Mozilla/5.0 (Macintosh)", "python-requests/2.31"], 3)
    hosts, c = [ip(r) for _ in range(7)], Clock(r)
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    while True:
        c.step()
        yield (f'{r.choice(hosts)} - - [{c.day:02d}/{months[c.month - 1]}/{c.year}:{c.time()} +0000] '
               f'"{r.choice(["GET", "GET", "GET", "POST", "HEAD"])} {r.choice(paths)} HTTP/1.1" '
               f'{r.choice([200, 200, 200, 304, 404, 500])} {r.randint(100, 90000)} "-" "{r.choice(agents)}"')


def json_events(r):
    kinds, users, c, n = words(r, 5), words(r, 8), Clock(r), r.randint(1, 90000)
    extra = r.sample(["region", "device", "plan", "channel", "locale"], 2)
    values = {e: words(r, 4) for e in extra}
    while True:
        n += r.randint(1, 3)
        o = {"id": n, "time": f"{c.step().date()}T{c.time()}Z", "event": r.choice(kinds), "user": r.choice(users),
             "ms": r.randint(1, 4000), "ok": r.random() < .9}
        for e in extra:
            o[e] = r.choice(values[e])
        yield json.dumps(o)


def json_config(r):
    while True:
        name = word(r)
        o = {"name": name, "version": f"{r.randint(0, 5)}.{r.randint(0, 20)}.{r.randint(0, 9)}", "private": r.random() < .5,
             "limits": {word(r): r.randint(1, 4096) for _ in range(4)},
             "servers": [{"host": f"{word(r)}.example", "port": r.randint(1000, 9999), "weight": r.randint(1, 10)} for _ in range(3)],
             "tags": words(r, 4)}
        yield from json.dumps(o, indent=r.choice([2, 4])).split("\n")


def csv_sales(r):
    items, cities, c, n = words(r, 9), [w.capitalize() for w in words(r, 6)], Clock(r), r.randint(1, 5000)
    yield "order_id,date,city,item,quantity,unit_price,total"
    while True:
        n += 1
        c.s += 40000
        q, p = r.randint(1, 40), r.randint(100, 20000) / 100
        yield f"{n},{c.step().date()},{r.choice(cities)},{r.choice(items)},{q},{p:.2f},{q * p:.2f}"


def tsv_sensor(r):
    names = [f"{word(r)}-{i}" for i in range(1, 6)]
    c, level = Clock(r), {n: r.uniform(10, 30) for n in names}
    yield "timestamp\tsensor\ttemperature\thumidity\tbattery\tstate"
    while True:
        n = r.choice(names)
        level[n] += r.uniform(-.4, .4)
        yield f"{c.step().date()} {c.time()}\t{n}\t{level[n]:.2f}\t{r.randint(20, 90)}\t{r.uniform(3, 4.2):.3f}\t{r.choice(['ok', 'ok', 'ok', 'low', 'lost'])}"


def xml_catalog(r):
    tags, n = words(r, 4), r.randint(1, 900)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<{tags[0]}>"
    while True:
        n += 1
        yield f'  <{tags[1]} id="{tags[1][:2]}{n}" active="{r.choice(["true", "false"])}">'
        yield f"    <title>{word(r).capitalize()} {word(r)}</title>"
        yield f"    <{tags[2]}>{r.randint(1, 5000) / 100:.2f}</{tags[2]}>"
        yield f'    <{tags[3]} unit="{r.choice(["mm", "kg", "pcs"])}">{r.randint(1, 900)}</{tags[3]}>'
        yield f"  </{tags[1]}>"


def yaml_deploy(r):
    while True:
        name = word(r)
        yield "---"
        yield f"name: {name}"
        yield f"replicas: {r.randint(1, 12)}"
        yield "image:"
        yield f"  repository: registry.example/{word(r)}/{name}"
        yield f"  tag: \"{r.randint(0, 4)}.{r.randint(0, 20)}.{r.randint(0, 9)}\""
        yield "env:"
        for _ in range(r.randint(2, 5)):
            yield f"  - name: {word(r).upper()}_{word(r).upper()}"
            yield f"    value: {r.choice([str(r.randint(0, 9999)), word(r), 'true', 'false'])}"
        yield "resources:"
        yield f"  cpu: {r.randint(1, 16)}"
        yield f"  memory: {r.choice([128, 256, 512, 1024, 2048])}Mi"


def ini_file(r):
    while True:
        yield f"[{word(r)}.{word(r)}]"
        for _ in range(r.randint(3, 7)):
            k = "_".join(words(r, r.randint(1, 2)))
            yield f"{k} = {r.choice([str(r.randint(0, 65535)), 'yes', 'no', '/var/lib/' + word(r), str(r.randint(1, 900)) + r.choice('smh'), word(r)])}"
        yield ""


def key_values(r):
    keys = [w.capitalize() for w in words(r, 8)]
    while True:
        for k in keys:
            yield f"{k + ':':<16}{r.choice([str(r.randint(0, 99999)), f'{r.uniform(0, 100):.2f} %', word(r), f'{r.randint(1, 512)} MB', hexa(r, 12)])}"
        yield ""


def kernel_log(r):
    t, devices = r.uniform(0, 9000), [f"{r.choice(['eth', 'sda', 'usb', 'nvme', 'tty'])}{i}" for i in range(4)]
    while True:
        t += r.expovariate(2)
        d = r.choice(devices)
        yield f"[{t:12.6f}] " + r.choice([
            f"{d}: link is {r.choice(['up', 'down'])}, {r.choice([10, 100, 1000, 10000])} Mbps, full duplex",
            f"{d}: {r.randint(1, 4000000)} 512-byte logical blocks: ({r.randint(1, 2000)} GB)",
            f"pci 0000:{r.randint(0, 31):02x}:{r.randint(0, 31):02x}.{r.randint(0, 7)}: [{hexa(r, 4)}:{hexa(r, 4)}] type 00 class 0x{hexa(r, 6)}",
            f"{word(r)}[{r.randint(100, 9999)}]: segfault at {hexa(r, 8)} ip {hexa(r, 12)} sp {hexa(r, 12)} error {r.randint(4, 7)}",
            f"random: crng init done", f"audit: type={r.randint(1100, 1400)} audit({r.randint(10**9, 2 * 10**9)}.{r.randint(0, 999):03d}:{r.randint(1, 900)}): pid={r.randint(1, 9999)} uid={r.randint(0, 1000)}"])


# ---- hold-out: other shapes, other words ----

SURNAMES = "Abel Berg Clark Dahl Evans Fuchs Grant Haas Ito Jansen Keller Lopez Meyer Novak Olsen Perez Quinn Rossi Stone Tanaka Urban Vogel Weber Young Zeman".split()
GOODS = "bolt bracket cable clamp filter flange gasket hinge lamp motor nozzle panel pump relay rotor screw seal sensor shaft spring switch tank tube valve washer wheel".split()
PARTS = "api auth billing cache cart catalog checkout gateway index inventory ledger mailer media orders payments profile queue reports search session shipping stock sync users".split()


def journal(r):
    c, host = Clock(r), r.choice(PARTS) + "-" + hexa(r, 4)
    parts = r.sample(PARTS, 6)
    while True:
        p = r.choice(parts)
        n = r.randint(100, 60000)
        yield f"{c.step().date()}T{c.time()}+02:00 {host} {p}[{n}]: " + r.choice([
            f"Main process exited, code=exited, status={r.randint(0, 3)}/FAILURE", f"{p}.service: Succeeded.",
            f"Consumed {r.randint(1, 59)}.{r.randint(0, 999):03d}s CPU time.", f"Scheduled restart job, restart counter is at {r.randint(1, 30)}.",
            f"Listening on {p} socket.", f"Watchdog timeout (limit {r.randint(1, 10)}min)!", f"Reached target {p} services."])


def logfmt(r):
    c, parts = Clock(r), r.sample(PARTS, 5)
    while True:
        yield (f'ts={c.step().date()}T{c.time()}.{r.randint(0, 999):03d}Z level={r.choice(["info", "info", "info", "warn", "error", "debug"])} '
               f'component={r.choice(parts)} msg="{r.choice(["request served", "cache miss", "retry scheduled", "slow query", "connection reset", "worker started"])}" '
               f'duration={r.randint(1, 3000)}ms trace={hexa(r, 16)}')


def api_reply(r):
    while True:
        rows = [{"sku": f"{r.choice(GOODS)[:3].upper()}-{r.randint(1000, 9999)}", "label": f"{r.choice(GOODS)} {r.choice(GOODS)}",
                 "stock": r.randint(0, 900), "price": {"amount": r.randint(100, 99999) / 100, "currency": r.choice(["EUR", "USD", "CHF"])},
                 "updated_at": f"{r.randint(2018, 2025)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"} for _ in range(3)]
        text = json.dumps({"status": "ok", "page": r.randint(1, 40), "results": rows}, indent=2)
        yield from text.split("\n")


def csv_staff(r):
    n = r.randint(100, 9000)
    yield '"employee";"name";"department";"hired";"salary";"remote"'
    while True:
        n += r.randint(1, 9)
        yield f'{n};"{r.choice(SURNAMES)}, {r.choice("ABCDEFGHJKLMNPRST")}.";"{r.choice(PARTS)}";{r.randint(1, 28):02d}.{r.randint(1, 12):02d}.{r.randint(1995, 2024)};{r.randint(28, 140)}000;{r.choice(["Y", "N"])}'


def tsv_stars(r):
    yield "designation\tra_deg\tdec_deg\tmagnitude\tparallax\tclass"
    while True:
        yield f"HX {r.randint(1000, 99999)}\t{r.uniform(0, 360):.5f}\t{r.uniform(-90, 90):+.5f}\t{r.uniform(-1, 14):.2f}\t{r.uniform(.1, 90):.3f}\t{r.choice('OBAFGKM')}{r.randint(0, 9)}{r.choice(['V', 'III', 'IV'])}"


def xml_invoice(r):
    n = r.randint(1, 90000)
    while True:
        n += 1
        yield f'<Invoice number="INV-{n:06d}" issued="{r.randint(2016, 2025)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}">'
        yield f"\t<Customer><Name>{r.choice(SURNAMES)} Ltd.</Name><VatId>DE{r.randint(10**8, 10**9 - 1)}</VatId></Customer>"
        for i in range(r.randint(1, 3)):
            q, p = r.randint(1, 50), r.randint(50, 9000) / 100
            yield f'\t<Line pos="{i + 1}"><Item>{r.choice(GOODS)}</Item><Qty>{q}</Qty><Price>{p:.2f}</Price><Sum>{q * p:.2f}</Sum></Line>'
        yield "</Invoice>"


def yaml_pipeline(r):
    while True:
        job = r.choice(PARTS)
        yield f"{job}-{r.choice(['build', 'test', 'lint', 'deploy'])}:"
        yield f"  stage: {r.choice(['prepare', 'build', 'verify', 'release'])}"
        yield f"  timeout: {r.randint(1, 90)}m"
        yield "  needs: [" + ", ".join(r.sample(PARTS, 2)) + "]"
        yield "  script:"
        for _ in range(r.randint(1, 3)):
            yield f"    - make {r.choice(PARTS)} JOBS={r.randint(1, 16)} MODE={r.choice(['fast', 'full'])}"
        yield "  only:"
        yield f"    - {r.choice(['main', 'release', 'tags'])}"
        yield ""


def properties(r):
    while True:
        p = r.choice(PARTS)
        yield f"# {p}"
        for _ in range(r.randint(2, 5)):
            yield f"com.example.{p}.{r.choice(PARTS)}.{r.choice(['size', 'timeout', 'enabled', 'path', 'retries'])}={r.choice([str(r.randint(1, 9000)), 'true', 'false', '/srv/' + r.choice(PARTS), str(r.randint(1, 60)) + 's'])}"


def listing(r):
    users = [s.lower() for s in r.sample(SURNAMES, 3)]
    while True:
        kind = r.choice("-d-")
        name = f"{r.choice(GOODS)}_{r.randint(1, 400):03d}" + ("" if kind == "d" else r.choice([".txt", ".csv", ".log", ".gz", ".bin"]))
        yield f"{kind}{r.choice(['rwxr-xr-x', 'rw-r--r--', 'rw-rw----'])} {r.randint(1, 9)} {r.choice(users):<8} staff {r.randint(0, 9999999):>9} {r.choice(['Jan', 'Mar', 'Jun', 'Sep', 'Nov'])} {r.randint(1, 28):>2} {r.randint(0, 23):02d}:{r.randint(0, 59):02d} {name}"


def ascii_table(r):
    yield "+--------+------------+----------+---------+"
    yield "| id     | name       | quantity | share   |"
    yield "+--------+------------+----------+---------+"
    n = r.randint(1, 500)
    while True:
        n += r.randint(1, 4)
        yield f"| {n:<6} | {r.choice(GOODS):<10} | {r.randint(0, 9999):>8} | {r.uniform(0, 100):>6.2f}% |"


def metrics(r):
    while True:
        p, q = r.choice(PARTS), r.choice(["requests_total", "errors_total", "bytes_sent_total"])
        yield f"# HELP {p}_{q} Number of {q.replace('_', ' ')} since start."
        yield f"# TYPE {p}_{q} counter"
        for code in r.sample([200, 201, 204, 301, 400, 404, 429, 500, 503], 4):
            yield f'{p}_{q}{{code="{code}",zone="{r.choice(["eu1", "eu2", "us1"])}"}} {r.randint(0, 99999999)}'


def firewall(r):
    c = Clock(r)
    while True:
        yield (f"{c.step().date()},{c.time()},{r.choice(['DROP', 'ACCEPT', 'REJECT'])},{r.choice(['TCP', 'UDP', 'ICMP'])},SRC={ip(r)},DST={ip(r)},"
               f"SPT={r.randint(1024, 65535)},DPT={r.choice([22, 53, 80, 123, 443, 8080])},LEN={r.randint(40, 1500)},TTL={r.choice([52, 64, 113, 128, 250])}")


CALIBRATION = [package_log, syslog, access_log, json_events, json_config, csv_sales, tsv_sensor, xml_catalog,
               yaml_deploy, ini_file, key_values, kernel_log]
HOLDOUT = [journal, logfmt, api_reply, csv_staff, tsv_stars, xml_invoice, yaml_pipeline, properties, listing,
           ascii_table, metrics, firewall]


def lines_of(kind, seed, n):
    """Lines of one document; its generator sees its own random numbers only."""
    r = random.Random(f"{seed} {kind.__name__} {n}")
    yield from kind(r)


def write(path, kinds, documents, requests, size, seed):
    with open(path, "w", encoding="utf-8") as out:
        for n in range(documents):
            for kind in kinds:
                name = f"{kind.__name__}-{n:02d}"
                lines = lines_of(kind, seed, n)
                for q in range(requests):
                    text = ""
                    while len(text) < size:
                        text += next(lines) + "\n"
                    out.write(json.dumps({"id": f"{name}.{q}", "document": name, "type": "structured", "text": text}) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", default="1")
    p.add_argument("--documents", type=int, default=12, help="of each kind, for calibration")
    p.add_argument("--holdout-documents", type=int, default=6, help="of each kind")
    p.add_argument("--requests", type=int, default=5, help="of each document")
    p.add_argument("--bytes", type=int, default=500, help="of a request, at least")
    p.add_argument("out")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    write(os.path.join(a.out, "structured-calibration.jsonl"), CALIBRATION, a.documents, a.requests, a.bytes, a.seed)
    write(os.path.join(a.out, "structured-holdout.jsonl"), HOLDOUT, a.holdout_documents, a.requests, a.bytes, a.seed)


if __name__ == "__main__":
    main()
