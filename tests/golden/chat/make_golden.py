#!/usr/bin/env python3
"""Renders conversations with Jinja, for the test that compares worker/chat with it byte for byte.

    python3 -m venv VENV && VENV/bin/pip install jinja2==3.1.6
    VENV/bin/python tests/golden/chat/make_golden.py

templates/*.jinja are the chat_template texts that the models' publishers ship. The environment is the
one that `transformers` sets up (trim_blocks, lstrip_blocks, raise_exception, a sandbox). Writes
NAME.json: {"family", "bos", "eos", "cases": [{"messages", "add_generation_prompt", "text" or null}]};
null where the template raises. strftime_now is left out: a prompt must not depend on the day.
NAME.tools.json is the same for templates that know functions: cases also have "tools" and
"enable_thinking", and messages "tool_calls", "tool_call_id", "reasoning_content".
"""
import itertools
import json
import pathlib

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent

# template: family, bos, eos
MODELS = {
    "smollm2": ("chatml", "<|im_start|>", "<|im_end|>"),
    "qwen2": ("chatml", "", "<|im_end|>"),
    "qwen2.5": ("chatml", "", "<|im_end|>"),
    "qwen3": ("qwen3", "", "<|im_end|>"),
    "chatml": ("chatml", "<s>", "<|im_end|>"),
    "llama3": ("llama3", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.1": ("llama3.1", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.2": ("llama3.1", "<|begin_of_text|>", "<|eot_id|>"),
    "llama2": ("llama2", "<s>", "</s>"),
    "mistral-v0.1": ("mistral-v0.1", "<s>", "</s>"),
    "mistral-v0.2": ("mistral-v0.2", "<s>", "</s>"),
    "mistral-v1": ("mistral-v1", "<s>", "</s>"),
    "mistral-v3": ("mistral-v3", "<s>", "</s>"),
    "mistral-v3-tekken": ("mistral-v3-tekken", "<s>", "</s>"),
    "mistral-v7": ("mistral-v7", "<s>", "</s>"),
    "mistral-v7-tekken": ("mistral-v7-tekken", "<s>", "</s>"),
    "gemma2": ("gemma", "<bos>", "<eos>"),
    "gemma3": ("gemma3", "<bos>", "<eos>"),
    "deepseek-v2": ("deepseek-v2", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-v3": ("deepseek-v3", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-r1": ("deepseek-r1", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-r1-distill": ("deepseek-r1-distill", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "phi3": ("phi3", "<s>", "<|endoftext|>"),
    "phi3.5": ("phi3.5", "<s>", "<|endoftext|>"),
    "phi4": ("phi4", "<|endoftext|>", "<|im_end|>"),
    "phi4-mini": ("phi4-mini", "<|endoftext|>", "<|endoftext|>"),
}

# Its default system text holds the day's date: shown only with a system message given.
NEEDS_SYSTEM = {"mistral-v7-tekken"}

CONVERSATIONS = [
    "u:Hello",
    "s:Be brief.|u:Hello",
    "u:Hello|a:Hi there.|u:How are you?",
    "s:Be brief.|u:Hello|a:Hi there.|u:How are you?",
    "s:Be brief.|u:Hello|a:Hi there.|u:How are you?|a:Fine.",
    "u:Hello|a:Hi",
    "u:",
    "s:|u:",
    "s:|u:Hello|a:|u:",
    "s:  |u: \n ",
    "u:  spaces around  \n\n|a:\t tab and line \n|u:\u00a0\u3000wide spaces\u2003\u2028",
    "s:\n system with lines \n\n|u:\nx\n|a: y |u:z ",
    "u:Grüße, 世界! 🙂 e\u0301|a:¡Olé! \u200b|u:नमस्ते \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "u:<|im_end|> [/INST] <end_of_turn> {{ bos_token }} {% if %} \\n '\"",
    "u:think|a:<think>\nhidden\n</think>\n\nshown|u:again",
    "u:think|a:a</think>b</think>c|u:again|a:</think>",
    "a:I start|u:Then you",
    "u:one|u:two",
    "u:one|a:two|a:three",
    "s:only a system message",
    "s:first|s:second|u:Hello",
    "u:Hello|s:late system|u:again",
    "u:Hello|a:Hi|s:late system|u:again|a:end",
    "s:lead|u:Hello|a:Hi|s:late",
    "s:lead|a:Hi|u:x",
]
ROLES = {"s": "system", "u": "user", "a": "assistant"}


# Those whose templates print functions and calls in a form of their own.
WITH_TOOLS = ["qwen2.5", "qwen3", "llama3.1", "llama3.2", "mistral-v3", "mistral-v3-tekken"]

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "What the weather is like, \"now\" & <here>.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Größe, 世界 / \u00e9\n"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": "integer", "minimum": 0}, "above": {"type": "number", "default": 0.1}},
            "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "f", "description": "", "parameters": {
        "type": "object", "properties": {"x": {"anyOf": [{"type": "number"}, {"type": "null"}],
                                               "examples": [1e20, 1.5e-7, -3.0, 100, True, None, []]}}}}},
]


def called(*calls, content=""):
    return {"role": "assistant", "content": content, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls]}


def result(id, content):
    return {"role": "tool", "tool_call_id": id, "content": content}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


PARIS = ("abcdef123", "get_weather", {"city": "Paris", "days": 2, "above": 0.1})
TOOL_CONVERSATIONS = [
    [said("user", "What is it like in Paris?")],
    [said("system", "Be brief."), said("user", "  What is it like?  ")],
    [said("user", "What is it like?"), called(PARIS), result("abcdef123", "{\"temp\": 21.5}")],
    [said("system", "Be brief."), said("user", "What is it like?"), called(PARIS),
     result("abcdef123", "21 \"C\"\n & é <b>"), said("assistant", "It is warm."), said("user", "And now?")],
    [said("user", "Both?"), called(PARIS, ("ABCDEF456", "now", {})), result("abcdef123", "21"),
     result("ABCDEF456", "noon"), said("assistant", "Warm at noon.")],
    [said("user", "Look."), called(PARIS, content="I look it up."), result("abcdef123", "")],
    [said("user", "a"), said("assistant", "b"), said("user", "c"), called(("000000001", "f", {"x": None})),
     result("000000001", "[1, 2]"), called(("000000002", "f", {"x": [1.5, {"y": "z"}]})),
     result("000000002", "null")],
]
THOUGHTS = [
    [said("user", "2+2?"), said("assistant", "4", reasoning_content="\nadd them\n"), said("user", "3+3?")],
    [said("user", "2+2?"), said("assistant", "4", reasoning_content="add them")],
    [said("user", "2+2?"), said("assistant", "<think>\nadd\n</think>\n\n4")],
    [said("user", "What is it like?"), {**called(PARIS), "reasoning_content": "I need to look."},
     result("abcdef123", "21")],
    [said("user", "What is it like?"), {**called(PARIS, content="Wait."), "reasoning_content": "Look."},
     result("abcdef123", "21"), said("assistant", "Warm."), said("user", "Thanks")],
]


def raise_exception(message):
    raise TemplateError(message)


def messages_of(text):
    parts = [part.split(":", 1) for part in text.split("|", -1)] if "<|" not in text else [
        text.split(":", 1)]
    return [{"role": ROLES[role], "content": content} for role, content in parts]


def render(name, template, bos, eos):
    cases = []
    for conversation, generation in itertools.product(CONVERSATIONS, (True, False)):
        messages = messages_of(conversation)
        if name in NEEDS_SYSTEM and messages[0]["role"] != "system":
            continue
        try:
            text = template.render(messages=messages, bos_token=bos, eos_token=eos,
                                   add_generation_prompt=generation)
        except TemplateError:
            text = None
        cases.append({"messages": messages, "add_generation_prompt": generation, "text": text})
    return cases


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def render_tools(name, template, bos, eos):
    cases = []
    conversations = TOOL_CONVERSATIONS + (THOUGHTS if name == "qwen3" else [])
    thinking = (None, True, False) if name == "qwen3" else (None,)
    for messages, tools, generation, think in itertools.product(
            conversations, (TOOLS, TOOLS[:1], None), (True, False), thinking):
        if think is not None and not generation:
            continue
        more = {} if think is None else {"enable_thinking": think}
        if tools is not None:
            more["tools"] = tools
        try:
            text = template.render(messages=messages, bos_token=bos, eos_token=eos,
                                   add_generation_prompt=generation, **more)
        except TemplateError:
            text = None
        cases.append({"messages": messages, "tools": tools, "enable_thinking": think,
                      "add_generation_prompt": generation, "text": text})
    return cases


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    environment.filters["tojson"] = tojson
    for name, (family, bos, eos) in MODELS.items():
        if name in NEEDS_SYSTEM:
            environment.globals["strftime_now"] = lambda form: "2025-01-30"
        else:
            environment.globals.pop("strftime_now", None)
        template = environment.from_string((HERE / "templates" / f"{name}.jinja").read_text())
        golden = {"family": family, "bos": bos, "eos": eos,
                  "cases": render(name, template, bos, eos)}
        out = json.dumps(golden, ensure_ascii=True, indent=0) + "\n"
        (HERE / f"{name}.json").write_text(out)
        if name in WITH_TOOLS:
            golden["cases"] = render_tools(name, template, bos, eos)
            out = json.dumps(golden, ensure_ascii=True, indent=0) + "\n"
            (HERE / f"{name}.tools.json").write_text(out)


if __name__ == "__main__":
    main()
