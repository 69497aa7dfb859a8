"""`lacuna cost` against sums written out by hand. usage: test_cost.py LACUNA"""
import json, os, subprocess, sys, tempfile

LACUNA = sys.argv[1]
PRICES = {"currency": "EUR", "device_hour": 3, "device_tokens_s": 100,
          "million_layer_tokens": {"full": 0.02, "gold": 0.018, "standard": 0.015, "economy": 0.01}}
TRAFFIC = {"layers": 30, "seconds": 7200, "classes": [
    {"class": "full", "tier": "full", "active_layers": 30, "cost": 1, "tokens": 1440000},
    {"class": "logs", "tier": "economy", "active_layers": 25, "cost": 0.75, "tokens": 1440000}]}


def cost(folder, prices, traffic, *options, code=0):
    files = []
    for name, what in (("prices", prices), ("traffic", traffic)):
        files += [f"--{name}", os.path.join(folder, name)]
        with open(files[-1], "w") as f:
            json.dump(what, f)
    done = subprocess.run([LACUNA, "cost", *files, *options], capture_output=True, text=True)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


with tempfile.TemporaryDirectory() as folder:
    got = json.loads(cost(folder, PRICES, TRAFFIC, "--json"))
    # 1.44 M tokens × 30 layers × 0.02 a million, and × 25 × 0.01; 200 tokens a second each.
    assert abs(got["price"] - (1.44 * 30 * 0.02 + 1.44 * 25 * 0.01)) < 1e-9, got
    assert abs(got["price_full"] - 2 * 1.44 * 30 * 0.02) < 1e-9, got
    assert (got["devices"], got["devices_full"]) == (4, 4), got  # 2 + 1.5 busy
    assert got["device_cost"] == 4 * 2 * 3 and got["currency"] == "EUR", got
    text = cost(folder, PRICES, TRAFFIC)
    assert "logs" in text and "devices: 4 (3.50 busy), as full 4 (4.00 busy)" in text, text
    bad = json.loads(json.dumps(TRAFFIC))
    bad["classes"][1]["active_layers"] = 31
    assert "active_layers is 31, allowed 0 to 30" in cost(folder, PRICES, bad, code=1)
    bad["classes"][1]["tier"] = "silver"
    assert "tier" in cost(folder, PRICES, bad, code=1)
    assert "economy is missing" in cost(folder, {**PRICES, "million_layer_tokens": {"full": 1, "gold": 1, "standard": 1}},
                                        TRAFFIC, code=1)
    assert "classes" in cost(folder, PRICES, {**TRAFFIC, "classes": []}, code=1)
    done = subprocess.run([LACUNA, "cost"], capture_output=True, text=True)
    assert done.returncode == 2 and "are needed" in done.stderr, done
