"""Functions through the openai package: calls forced by the grammar, streamed and whole, the conversation that
goes on with their results, across the death of a worker; and what is refused, by name."""

import json

from cluster import Cluster, main, openai_client

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 16},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer"}}, "required": ["city", "unit"], "additionalProperties": False}}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
ADD = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}}


def named(name):
    return {"type": "function", "function": {"name": name}}


def ask(text="What is the weather in Paris?", **more):
    return {**dict(model="smol", messages=[{"role": "user", "content": text}], max_tokens=200, temperature=0,
                   tools=[WEATHER, NOW, ADD]), **more}


def check_call(call, name=None):
    assert call.type == "function" and len(call.id) == 9, call
    arguments = json.loads(call.function.arguments)
    assert name is None or call.function.name == name, call
    if call.function.name == "get_weather":
        assert {"city", "unit"} <= set(arguments) <= {"city", "unit", "days"}, arguments
        assert arguments["unit"] in ("celsius", "fahrenheit") and 1 <= len(arguments["city"]) <= 16, arguments
    elif call.function.name == "now":
        assert arguments == {}, arguments
    else:
        assert call.function.name == "add" and {"a", "b"} <= set(arguments), call
    return arguments


def a_named_function_is_called():
    client = openai_client(c)
    for name in ("get_weather", "now", "add"):
        reply = client.chat.completions.create(**ask(tool_choice=named(name)))
        choice = reply.choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content is None, choice
        assert len(choice.message.tool_calls) == 1, choice
        check_call(choice.message.tool_calls[0], name)
        assert reply.usage.completion_tokens > 3 and reply.usage.prompt_tokens > 50, reply.usage


def some_function_is_called():
    client = openai_client(c)
    seen = set()
    for seed in range(6):
        reply = client.chat.completions.create(**ask(tool_choice="required", temperature=1, seed=seed, n=2))
        ids = set()
        for choice in reply.choices:
            assert choice.finish_reason == "tool_calls", choice
            check_call(choice.message.tool_calls[0])
            ids.add(choice.message.tool_calls[0].id)
            seen.add(choice.message.tool_calls[0].function.name)
        assert len(ids) == 2, reply
    assert seen <= {"get_weather", "now", "add"} and seen, seen


def streamed_as_whole():
    client = openai_client(c)
    for choice in (named("get_weather"), "required"):
        whole = client.chat.completions.create(**ask(tool_choice=choice)).choices[0].message.tool_calls[0]
        name, arguments, first, reason, events = "", "", None, None, 0
        for chunk in client.chat.completions.create(**ask(tool_choice=choice, stream=True)):
            delta = chunk.choices[0].delta
            assert not delta.content, chunk
            reason = chunk.choices[0].finish_reason or reason
            for call in delta.tool_calls or []:
                assert call.index == 0, call
                first = first or call.id
                name += call.function.name or ""
                arguments += call.function.arguments or ""
                events += 1
        assert reason == "tool_calls" and len(first) == 9 and events > 2, (reason, first, events)
        assert (name, arguments) == (whole.function.name, whole.function.arguments), (name, arguments, whole)


def the_conversation_goes_on():
    client = openai_client(c)
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    call = client.chat.completions.create(**ask(tool_choice=named("get_weather"))).choices[0].message
    messages += [call.model_dump(exclude_none=True),
                 {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "21 degrees, sunny"}]
    reply = client.chat.completions.create(**ask(messages=messages, tool_choice="none", max_tokens=40))
    assert reply.choices[0].message.content and not reply.choices[0].message.tool_calls, reply
    again = client.chat.completions.create(**ask(messages=messages, max_tokens=40))
    assert again.choices[0].finish_reason in ("stop", "length", "tool_calls"), again
    longer = client.chat.completions.create(**ask(messages=messages, tool_choice="none", max_tokens=1))
    short = client.chat.completions.create(**ask(max_tokens=1, tools=None))
    assert longer.usage.prompt_tokens > short.usage.prompt_tokens + 20, (longer.usage, short.usage)


def a_call_survives_a_death():
    """The same call, to the byte, when the worker that began it dies."""
    client = openai_client(c)
    many = {"type": "function", "function": {"name": "store", "parameters": {"type": "object", "properties": {
        "values": {"type": "array", "items": {"type": "number"}, "minItems": 24, "maxItems": 24}},
        "required": ["values"]}}}
    question = ask("Numbers.", tools=[many], tool_choice="required", temperature=1, seed=5, max_tokens=600)
    whole = client.chat.completions.create(**question).choices[0].message.tool_calls[0].function.arguments
    assert len(json.loads(whole)["values"]) == 24, whole
    text, killed = "", None
    for chunk in client.chat.completions.create(**question, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            text += call.function.arguments or ""
        if len(text) > 30 and not killed:
            busy = [g["id"] for g in c.status()["groups"] if g["running"] > 0]
            killed = next(w for w in c.workers if w.name in busy and w.alive())
            killed.kill()
    assert killed and text == whole, (killed, text, whole)


def refusals():
    pattern = {"type": "function", "function": {"name": "p", "parameters": {
        "type": "object", "properties": {"x": {"type": "string", "pattern": "a+"}}}}}
    cases = [
        (dict(tools=[], tool_choice="required"), "tool_choice requires a call, allowed only with tools"),
        (dict(tool_choice=named("gone")), "names \"gone\", which tools does not have"),
        (dict(tools=[pattern], tool_choice="required"), "tools: schema at #"),
        (dict(tools=[{**NOW, "function": {"name": f"f{i}"}} for i in range(17)], tool_choice="required"),
         "with 17 tools, allowed at most 16"),
        (dict(response_format={"type": "json_object"}), "response_format and tools are both given"),
        (dict(tool_choice="required", min_tokens=3), "min_tokens is 3"),
        (dict(chat_template_kwargs={"enable_thinking": True}), "has no thinking"),
    ]
    for more, text in cases:
        status, _, body = c.post("/v1/chat/completions", ask(**more))
        assert status == 400 and text in body["error"]["message"], (status, body)
    status, _, body = c.post("/v1/chat/completions", ask(
        tools=None, chat_template_kwargs={"enable_thinking": False}, max_tokens=2))
    assert status == 200, body
    status, _, body = c.post("/v1/completions", {"prompt": "def f(", "suffix": "return 1", "max_tokens": 4})
    assert status == 400 and "no tokens to fill a gap" in body["error"]["message"], body


# What a killed worker must bring about in the coordinator's log, and nothing else.
KNOWN = [
    r"group w\d+: READY -> SUSPECT: its connection is gone$",
    r"group w\d+: moving 1 requests: its connection is gone$",
    r"group w\d+: SUSPECT -> FENCED: disconnected and did not come back$",
]
with Cluster(workers=2, warnings=KNOWN) as c:
    main(a_named_function_is_called, some_function_is_called, streamed_as_whole, the_conversation_goes_on,
         refusals, a_call_survives_a_death)
