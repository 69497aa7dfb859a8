"""The golden texts: (name, text). All written for this test."""

PROSE = """The ferry left at dawn, and nobody on the pier waved. "It's late," she'd said; they'd all
known it wouldn't wait. We're told the crossing takes three hours; I'd guess four, and you'll agree.
Rain came sideways. The lamps on the far shore went out one by one, as if someone were counting.
"""

CODE = """static int find(const char *s, size_t n)
{
\tfor (size_t i = 0; i < n; i++) {
\t\tif (s[i] == '\\0')
\t\t\treturn (int)i;   // first NUL
\t}
\treturn -1;
}

def area(r: float) -> float:
    \"\"\"pi * r**2\"\"\"
    return 3.14159 * r ** 2  # about right
<div class="row" id='r1'>&nbsp;</div> {"a": [1, 2.5e-3, null], "b_c": "\\u00e9"}
SELECT name, COUNT(*) FROM users WHERE id >= 1000 GROUP BY 1;
"""

TEXTS = [
    ("prose", PROSE),
    ("code", CODE),
    ("empty", ""),
    ("one letter", "a"),
    ("one space", " "),
    ("one newline", "\n"),
    ("leading and trailing space", "  two before, three after   "),
    ("contractions lower", "it's he'd we'll they're I've I'm don't o'clock 'tis 's't"),
    ("contractions upper", "IT'S HE'D WE'LL THEY'RE I'VE I'M DON'T O'CLOCK 'S'T'LL"),
    ("contractions mixed", "It'S hE'd 'Ll'rE 'Ve'ſ '\u017f x'S1 \u2019s it\u2019s don\u2019t"),
    ("numbers", "0 1 12 123 1234 12345 123456 1,234,567.89 0x1F 3.14e-10 2024-11-30T07:26:00Z v1.2.3"),
    ("numbers of other scripts", "٠١٢٣ ०१२ Ⅷ ½ ² ₃ ①② 一二三 𝟘𝟙𝟚 1٢3"),
    ("spaces before digits", "a  1   2    3\n 4\t5  "),
    ("mixed white space", "a \t b\t\tc \n\n d\u00a0e\u2003f\u3000g\u2028h\u2029i\u0085j\u200bk\u180el"),
    ("crlf", "line one\r\nline two\r\n\r\n  line three\r\rend\n\r\n"),
    ("tabs", "\tx\n\t\ty\n\t \t z\t\n"),
    ("spaces run", "x" + " " * 97 + "y" + " " * 64),
    ("newlines run", "x" + "\n" * 41 + "y\n \n  \n   \n"),
    ("emoji", "😀😃 👍🏽 🇩🇪🇫🇷 ❤️ ☕︎ 🧑‍🚀"),
    ("zwj sequences", "👩‍👩‍👧‍👦 👨🏿‍🦰 🏳️‍🌈 🏴‍☠️ ‍a‍ ‌"),
    ("cjk", "渡し船は夜明けに出た。誰も手を振らなかった。我们等了三个小时，也许四个。안녕하세요 세계"),
    ("arabic", "غادرت العبّارة عند الفجر، ولم يلوّح أحدٌ. ١٢٣ كم؟"),
    ("hebrew and hindi", "שלום עולם, הַסְּפִינָה. नमस्ते दुनिया, क्षत्रिय।"),
    ("thai", "เรือข้ามฟากออกแต่เช้า น้ำ กำ"),
    ("cyrillic and greek", "Паром ушёл на рассвете. Το πλοίο έφυγε την αυγή. ΣΊΣΥΦΟΣ"),
    ("combining marks", "e\u0301 o\u0308\u0304 n\u0303 A\u030a q\u0307\u0323 \u0301x Z\u0351\u036b\u0343\u036a"),
    ("precomposed", "é ö ñ Å ǟ ﬁ ﬀ ẛ̣"),
    ("symbols", "!!! ... --- === *** ### @@@ $$$ %%% ^^^ &&& ((())) [[[]]] {{{}}} <<<>>> ~`|\\/ €£¥ ©®™ ∑∫√ →⇒"),
    ("symbols then newlines", "end.\n\nstart;\r\n}\n\n\n{ ...\n"),
    ("words joined", "camelCaseName snake_case_name kebab-case-name path/to/file.txt a.b@c.org x+=y"),
    ("control characters", "a\x00b\x01\x02\x03c\x1b[0m\x7f\x05d"),
    ("long word", "Donau" + "dampfschifffahrt" * 40 + "sgesellschaft"),
    ("long letter run", "a" * 1023 + "b" * 77),
    ("long digit run", "9" * 200 + "x" + "12" * 51),
    ("long symbol run", "=" * 333 + "-" * 80 + "\n" + "*/" * 50),
    ("special texts", "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><|im_end|x <|im_end|>"),
    ("special lookalikes", "<|im_start <|im_start||> <||> <tool> </tool><tool>x"),
    ("private use and astral", "\ue000\uf8ff 𐍈𐌰 𓀀 𝒜𝓑 \U0010fffd"),
    ("replacement and bom", "\ufeffstart \ufffd end"),
    ("llama header", "<|start_header_id|>user<|end_header_id|>\n\nwhy?<|eot_id|>"),
    ("ignore merges", "zebrafish quizzical zebrafishes  zebrafish"),
]
