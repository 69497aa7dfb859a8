"""A plan for the default model, as tests need one: real masks, made-up certificates."""

import json
import os
import re
import subprocess

from cluster import model_file, program


def inspected():
    """Digest, name, layers, hidden of the test model, as `lacuna-engine inspect` prints them."""
    text = subprocess.run([program("lacuna-engine"), "inspect", "--model", model_file()],
                          capture_output=True, text=True, check=True, timeout=60).stdout
    value = lambda key: re.search(rf"^{key}\s+(\S+)", text, re.M).group(1)
    return value("digest"), value("name"), int(value("layers")), int(value("hidden"))


def certificate(kl_mean, kl_upper):
    return {"kl_mean": kl_mean, "kl_upper": kl_upper, "kl_p95": 2 * kl_upper, "top1": 0.97,
            "cost_saved": 0.02, "data": "ab" * 32, "documents": 60, "requests": 300, "tokens": 19200,
            "method": "made up for a test", "date": "2025-01-01"}


def write_plan(folder, classes):
    """`classes`: (name, mask, {type: (tier, mean, upper)}) each. Returns the file's path."""
    digest, name, layers, hidden = inspected()
    plan = {"format": "lacuna-plan", "version": 1,
            "model": {"name": name, "digest": digest, "layers": layers, "hidden": hidden},
            "patches": None,
            "classes": [{"name": own, "scope": "request", "mask": mask,
                         "serves": {kind: {"tier": tier, "certificate": certificate(mean, upper)}
                                    for kind, (tier, mean, upper) in serves.items()}}
                        for own, mask, serves in classes]}
    path = os.path.join(folder, "test.plan.json")
    with open(path, "w") as f:
        json.dump(plan, f)
    return path
