"""Answers that must be JSON: whatever is drawn at temperature 1, it parses and matches the schema;
with stops, streams, log-probabilities, penalties and several choices; across the death of a worker; and
what is refused, by name."""

import json

from cluster import Cluster, PROMPTS, main, openai_client

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer"},
        "mood": {"enum": ["happy", "sad", "happy go lucky", 7, None]},
        "scores": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
        "home": {"anyOf": [{"type": "null"}, {
            "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"], "additionalProperties": False}]},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "age", "scores", "home"],
    "additionalProperties": False,
}


def form(schema):
    return {"type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": schema}}


def check_person(text):
    it = json.loads(text)
    assert [k for k in PERSON["properties"] if k in it] == list(it), it
    assert set(PERSON["required"]) <= set(it), it
    assert isinstance(it["name"], str) and 1 <= len(it["name"]) <= 20, it
    assert type(it["age"]) is int, it
    assert it.get("mood") in PERSON["properties"]["mood"]["enum"], it
    assert 1 <= len(it["scores"]) <= 3 and all(type(x) in (int, float) for x in it["scores"]), it
    assert it["home"] is None or (list(it["home"]) == ["city"] and len(it["home"]["city"]) <= 12), it
    assert type(it.get("ok", True)) is bool, it


def ask(text, schema=None, **more):
    return dict(model="smol", messages=[{"role": "user", "content": text}], max_tokens=400,
                temperature=1, response_format=form(schema or PERSON), **more)


def twenty_prompts():
    client = openai_client(c)
    prompts = (PROMPTS * 20)[:20]
    for i, prompt in enumerate(prompts):
        reply = client.chat.completions.create(**ask(prompt, seed=i))
        assert reply.choices[0].finish_reason == "stop", reply
        check_person(reply.choices[0].message.content)


def with_everything():
    client = openai_client(c)
    reply = client.chat.completions.create(**ask("A person.", seed=3, n=3, logprobs=True, top_logprobs=3,
                                                 presence_penalty=1.0, frequency_penalty=0.5))
    assert [x.index for x in reply.choices] == [0, 1, 2], reply
    for choice in reply.choices:
        check_person(choice.message.content)
        assert "".join(t.token for t in choice.logprobs.content).startswith('{'), choice
    assert len({x.message.content for x in reply.choices}) == 3, reply
    tokens = sum(len(x.logprobs.content) for x in reply.choices)
    assert reply.usage.completion_tokens == tokens, reply.usage
    whole = client.chat.completions.create(**ask("A person.", seed=4, n=2))
    parts = ["", ""]
    for chunk in client.chat.completions.create(**ask("A person.", seed=4, n=2, stream=True)):
        for choice in chunk.choices:
            parts[choice.index] += choice.delta.content or ""
    assert parts == [x.message.content for x in whole.choices], (parts, whole)
    cut = client.chat.completions.create(**ask("A person.", seed=3, stop=["\"age\""]))
    assert "age" not in cut.choices[0].message.content and cut.choices[0].finish_reason == "stop", cut
    greedy = client.chat.completions.create(**{**ask("A person."), "temperature": 0})
    check_person(greedy.choices[0].message.content)
    text = client.completions.create(model="smol", prompt="Numbers:", max_tokens=100, extra_body={
        "response_format": form({"type": "array", "items": {"type": "integer"}, "maxItems": 4})})
    assert all(type(x) is int for x in json.loads(text.choices[0].text)), text


def any_object():
    """Free strings may go on; what does not end is a prefix, and says so."""
    client = openai_client(c)
    for seed in range(4):
        reply = client.chat.completions.create(
            model="smol", seed=seed, max_tokens=300, temperature=0.7, response_format={"type": "json_object"},
            messages=[{"role": "user", "content": "Answer as a small JSON object: who was Ada Lovelace?"}])
        text, why = reply.choices[0].message.content, reply.choices[0].finish_reason
        assert text.startswith("{"), reply
        if why == "stop":
            assert isinstance(json.loads(text), dict), reply
        else:
            assert why == "length", reply


def refusals():
    cases = [
        ({"type": "xml"}, "response_format.type is \"xml\", allowed text, json_object, json_schema"),
        ({"type": "json_schema"}, "response_format.json_schema is missing"),
        (form({"type": "string", "pattern": "a+"}), "keyword \"pattern\" is not supported"),
        (form({"properties": {"a": {"$ref": "#"}}}), "schema at #/a: keyword \"$ref\" is not supported"),
        (form({"type": "array", "minItems": 2, "maxItems": 1}), "minItems is 2, over maxItems"),
    ]
    for shape, text in cases:
        status, _, body = c.post("/v1/chat/completions", {**ask("hi"), "response_format": shape})
        assert status == 400 and text in body["error"]["message"], (status, body)
    status, _, body = c.post("/v1/chat/completions", ask("hi", min_tokens=3))
    assert status == 400 and "min_tokens is 3, allowed: 0 with response_format" in str(body), body


def goes_on_after_a_death():
    """The same answer, to the byte, when the worker that began it dies."""
    client = openai_client(c)
    question = ask("Numbers.", seed=9, schema={
        "type": "array", "items": {"type": "number"}, "minItems": 24, "maxItems": 24})
    whole = client.chat.completions.create(**question).choices[0].message.content
    assert len(json.loads(whole)) == 24
    text, killed = "", None
    for chunk in client.chat.completions.create(**question, stream=True):
        text += chunk.choices[0].delta.content or ""
        if len(text) > 20 and not killed:
            busy = [g["id"] for g in c.status()["groups"] if g["running"] > 0]
            killed = next(w for w in c.workers if w.name in busy and w.alive())
            killed.kill()
    assert killed and text == whole, (killed, text, whole)


# What a killed worker must bring about in the coordinator's log, and nothing else.
KNOWN = [
    r"group w\d+: READY -> SUSPECT: its connection is gone$",
    r"group w\d+: moving 1 requests: its connection is gone$",
    r"group w\d+: SUSPECT -> FENCED: disconnected and did not come back$",
]
with Cluster(workers=2, warnings=KNOWN) as c:
    main(twenty_prompts, with_everything, any_object, refusals, goes_on_after_a_death)
