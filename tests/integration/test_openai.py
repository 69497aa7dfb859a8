"""The openai package and curl, unmodified, against a cluster of two workers: chat, completions,
streams, log-probabilities, stops, seeds, models."""

import json
import subprocess

from cluster import Cluster, PROMPTS, chat, events, main, openai_client


def chat_and_completions():
    client = openai_client(c)
    reply = client.chat.completions.create(**chat(PROMPTS[0]))
    assert len(reply.choices[0].message.content) > 10, reply
    assert reply.choices[0].finish_reason in ("stop", "length"), reply
    assert reply.object == "chat.completion" and reply.id.startswith("chatcmpl-") and reply.model == "smol"
    usage = reply.usage
    assert usage.prompt_tokens > 5 and 0 < usage.completion_tokens <= 48, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage
    text = client.completions.create(model="smol", prompt="The capital of France is", max_tokens=6,
                                     temperature=0)
    assert text.choices[0].text.startswith(" Paris"), text
    assert text.choices[0].finish_reason == "length" and text.usage.completion_tokens == 6, text
    short = client.chat.completions.create(**chat(PROMPTS[1], max_tokens=3))
    assert short.choices[0].finish_reason == "length" and short.usage.completion_tokens == 3, short


def streams_equal_whole_answers():
    client = openai_client(c)
    for prompt in PROMPTS[:4]:
        whole = client.chat.completions.create(**chat(prompt))
        chunks = list(client.chat.completions.create(
            **chat(prompt), stream=True, stream_options={"include_usage": True}))
        assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
        text = "".join(x.choices[0].delta.content or "" for x in chunks if x.choices)
        assert text == whole.choices[0].message.content, (text, whole)
        assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens
        assert all(x.usage is None for x in chunks[:-1])
        assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
        assert len({x.id for x in chunks}) == 1
    text = "".join(x.choices[0].text for x in client.completions.create(
        model="smol", prompt="Once upon a time", max_tokens=24, temperature=0, stream=True))
    whole = client.completions.create(model="smol", prompt="Once upon a time", max_tokens=24, temperature=0)
    assert text == whole.choices[0].text, (text, whole)


def echo():
    """The prompt, then what follows it; in a stream the prompt comes first."""
    client = openai_client(c)
    prompt = "Once upon a time, 日本 🙂"
    plain = dict(model="smol", prompt=prompt, max_tokens=12, temperature=0)
    whole = client.completions.create(**plain, echo=True)
    follows = client.completions.create(**plain)
    assert whole.choices[0].text == prompt + follows.choices[0].text, (whole, follows)
    assert whole.usage.completion_tokens == follows.usage.completion_tokens, (whole, follows)
    chunks = [x.choices[0].text for x in client.completions.create(**plain, echo=True, stream=True)]
    assert "".join(chunks) == whole.choices[0].text and chunks[0].startswith(prompt), chunks


def log_probabilities():
    client = openai_client(c)
    reply = client.chat.completions.create(**chat(PROMPTS[0], max_tokens=12), logprobs=True, top_logprobs=5)
    content = reply.choices[0].logprobs.content
    assert len(content) == reply.usage.completion_tokens, (len(content), reply.usage)
    for entry in content:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 5, entry
        order = [t.logprob for t in entry.top_logprobs]
        assert order == sorted(order, reverse=True), order
        assert abs(order[0] - entry.logprob) < 1e-6, entry  # greedy: the chosen one is the likeliest
    joined = b"".join(bytes(entry.bytes) for entry in content).decode()
    assert joined.startswith(reply.choices[0].message.content), (joined, reply)
    text = client.completions.create(model="smol", prompt="1, 2, 3,", max_tokens=4, temperature=0, logprobs=2)
    lists = text.choices[0].logprobs
    assert len(lists.tokens) == len(lists.token_logprobs) == len(lists.top_logprobs) == 4, lists
    assert "".join(lists.tokens) == text.choices[0].text and lists.text_offset[0] == 0, lists


def stops_and_seeds():
    client = openai_client(c)
    full = client.completions.create(model="smol", prompt="1, 2, 3,", max_tokens=20, temperature=0)
    text = full.choices[0].text
    assert "6" in text, text
    cut = client.completions.create(model="smol", prompt="1, 2, 3,", max_tokens=20, temperature=0, stop="6")
    assert cut.choices[0].text == text[:text.index("6")], (cut, text)
    assert cut.choices[0].finish_reason == "stop", cut
    pieces = list(client.completions.create(model="smol", prompt="1, 2, 3,", max_tokens=20, temperature=0,
                                            stop=["zzz", ", 6"], stream=True))
    assert "".join(p.choices[0].text for p in pieces) == text[:text.index(", 6")], pieces

    def draw(seed):
        return client.chat.completions.create(**chat(PROMPTS[7], temperature=1, max_tokens=24, seed=seed)
                                              ).choices[0].message.content
    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(4)}) > 1


def models_and_errors():
    import openai
    client = openai_client(c)
    names = [m.id for m in client.models.list()]
    assert names == ["smol"], names
    assert client.models.retrieve("smol").owned_by == "lacuna"
    for call, kind in [
        (lambda: client.models.retrieve("none"), openai.NotFoundError),
        (lambda: client.chat.completions.create(**{**chat("x"), "model": "none"}), openai.NotFoundError),
        (lambda: client.chat.completions.create(**chat("x", temperature=5)), openai.BadRequestError),
        (lambda: client.chat.completions.create(**chat("word " * 9000)), openai.BadRequestError),
    ]:
        try:
            call()
        except kind as refused:
            assert refused.body["message"], refused
        else:
            raise AssertionError(f"no {kind}")


def curl_stream():
    done = subprocess.run(
        ["curl", "-sN", "--max-time", "60", f"http://{c.http}/v1/chat/completions", "-H",
         "Content-Type: application/json", "-d", json.dumps(chat(PROMPTS[0], stream=True))],
        capture_output=True, text=True)
    assert done.returncode == 0, done
    got = list(events(done.stdout.splitlines()))
    assert got[-1] == "[DONE]", got[-3:]
    text = "".join(x["choices"][0]["delta"].get("content", "") for x in map(json.loads, got[:-1]))
    assert text == c.answer(chat(PROMPTS[0])), text


with Cluster(workers=2) as c:
    main(chat_and_completions, streams_equal_whole_answers, echo, log_probabilities, stops_and_seeds,
         models_and_errors, curl_stream)
