"""Responses, token ids, and the headers that every request may carry: the openai package and curl against real
workers."""

import json
import subprocess

from cluster import Cluster, PROMPTS, chat, main, openai_client

FUNCTION = {"type": "function", "name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "minLength": 1, "maxLength": 16}},
    "required": ["city"], "additionalProperties": False}}


def curl(path, *arguments):
    """(status, headers in lower case, body)"""
    done = subprocess.run(["curl", "-si", "--max-time", "60", f"http://{c.http}{path}", *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 0, done
    head, _, body = done.stdout.partition("\n\n" if "\r\n\r\n" not in done.stdout else "\r\n\r\n")
    lines = head.replace("\r", "").splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split()[1]), headers, body


def tokens_and_text():
    text = "Grüße, 世界! 🙂 <|im_end|> def f(x):"
    status, _, reply = c.post("/tokenize", {"model": "smol", "prompt": text, "add_special_tokens": False})
    assert status == 200 and reply["count"] == len(reply["tokens"]) > 5, reply
    status, _, back = c.post("/detokenize", {"tokens": reply["tokens"]})
    assert status == 200 and back["prompt"] == text == back["content"], back
    messages = [{"role": "user", "content": "hi"}]
    status, _, rendered = c.post("/tokenize", {"messages": messages})
    usage = openai_client(c).chat.completions.create(model="smol", messages=messages, max_tokens=1).usage
    assert rendered["count"] == usage.prompt_tokens, (rendered, usage)
    status, _, wrong = c.post("/detokenize", {"tokens": [49151, 1000000]})
    assert status == 400 and "token 1000000, allowed below 49152" in wrong["error"]["message"], wrong
    status, _, wrong = c.post("/tokenize", {"model": "none", "prompt": "x"})
    assert status == 404, wrong
    status, _, long = c.post("/tokenize", {"prompt": "word " * 20000})
    assert status == 200 and long["count"] > 15000, long["count"]


def responses():
    client = openai_client(c)
    whole = client.responses.create(model="smol", input=PROMPTS[0], temperature=0, max_output_tokens=24,
                                    instructions="You are a helpful assistant.", metadata={"a": "b"})
    assert whole.object == "response" and whole.status in ("completed", "incomplete"), whole
    assert len(whole.output_text) > 10 and whole.usage.output_tokens <= 24, whole
    assert whole.metadata == {"a": "b"} and whole.instructions == "You are a helpful assistant.", whole
    same = client.chat.completions.create(model="smol", temperature=0, max_tokens=24, messages=[
        {"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": PROMPTS[0]}])
    assert same.choices[0].message.content == whole.output_text, (same, whole)
    text, types, last = "", [], None
    for event in client.responses.create(model="smol", input=PROMPTS[0], temperature=0, max_output_tokens=24,
                                         instructions="You are a helpful assistant.", stream=True):
        types.append(event.type)
        text += event.delta if event.type == "response.output_text.delta" else ""
        last = event
    assert text == whole.output_text == last.response.output_text, (text, last)
    assert types[:2] == ["response.created", "response.in_progress"], types
    assert types[-1] == f"response.{whole.status}", types
    turn = client.responses.create(model="smol", temperature=0, max_output_tokens=8, input=[
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": [{"type": "input_text", "text": "And you?"}]}])
    assert turn.output_text, turn


def responses_call_functions():
    client = openai_client(c)
    reply = client.responses.create(model="smol", input="The weather in Paris?", temperature=0, tools=[FUNCTION],
                                    tool_choice={"type": "function", "name": "get_weather"})
    call = reply.output[0]
    assert call.type == "function_call" and call.name == "get_weather" and json.loads(call.arguments), reply
    streamed = ""
    for event in client.responses.create(model="smol", input="The weather in Paris?", temperature=0,
                                         tools=[FUNCTION], tool_choice="required", stream=True):
        streamed += event.delta if event.type == "response.function_call_arguments.delta" else ""
    assert streamed == call.arguments, (streamed, call)
    after = client.responses.create(model="smol", temperature=0, max_output_tokens=16, input=[
        {"role": "user", "content": "The weather in Paris?"}, call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}])
    assert after.usage.input_tokens > reply.usage.output_tokens, after


def responses_keep_nothing():
    import openai
    client = openai_client(c)
    for more, text in [({"store": True}, "keeps no responses"), ({"previous_response_id": "resp_1"}, "keeps no"),
                       ({"background": True}, "background")]:
        try:
            client.responses.create(model="smol", input="x", **more)
        except openai.BadRequestError as refused:
            assert text in refused.body["message"], refused
        else:
            raise AssertionError(more)


def traces_and_ids():
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    status, headers, _ = curl("/v1/completions", "-H", f"traceparent: {parent}", "-H", "X-Request-Id: mine-1",
                              "-d", json.dumps({"prompt": "a", "max_tokens": 1}))
    assert status == 200 and headers["x-request-id"] == "mine-1", headers
    assert headers["traceparent"].startswith(parent[:36]) and headers["traceparent"] != parent, headers
    status, headers, _ = curl("/v1/models", "-H", "traceparent: 00-xyz")
    assert status == 200 and "traceparent" not in headers, headers


def origins():
    allowed, other = ("-H", "Origin: https://page.example"), ("-H", "Origin: https://other.example")
    status, headers, _ = curl("/v1/models", *allowed)
    assert headers["access-control-allow-origin"] == "https://page.example" and headers["vary"] == "Origin", headers
    _, headers, _ = curl("/v1/models", *other)
    assert "access-control-allow-origin" not in headers, headers
    preflight = ("-X", "OPTIONS", "-H", "Access-Control-Request-Method: POST")
    status, headers, _ = curl("/v1/chat/completions", *allowed, *preflight)
    assert status == 200 and "POST" in headers["access-control-allow-methods"], headers
    status, headers, _ = curl("/v1/chat/completions", *other, *preflight)
    assert status == 405 and "access-control-allow-origin" not in headers, headers


def keys():
    body = chat(PROMPTS[2], temperature=1, max_tokens=12)  # no seed: two runs would differ
    status, first, a = c.post("/v1/chat/completions", body, {"Idempotency-Key": "k1"})
    status, second, b = c.post("/v1/chat/completions", body, {"Idempotency-Key": "k1"})
    assert a == b and second["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first, (a, b)
    status, _, reply = c.post("/v1/chat/completions", {**body, "max_tokens": 13}, {"Idempotency-Key": "k1"})
    assert status == 422 and "another body" in reply["error"]["message"], reply
    twins = [subprocess.Popen(
        ["curl", "-s", f"http://{c.http}/v1/chat/completions", "-H", "Idempotency-Key: k2", "-d",
         json.dumps({**body, "max_tokens": 60})], stdout=subprocess.PIPE) for _ in range(3)]
    answers = {json.loads(twin.communicate(timeout=60)[0])["choices"][0]["message"]["content"] for twin in twins}
    assert len(answers) == 1, answers


with Cluster(workers=1, coordinator_arguments=["--cors-origins", "https://page.example"]) as c:
    main(tokens_and_text, responses, responses_call_functions, responses_keep_nothing, traces_and_ids, origins, keys)
