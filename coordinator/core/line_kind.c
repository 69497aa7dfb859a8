/* What one line looks like: a row of a table, a log's entry, a statement, a sentence. Rules in the
 * order of how sure they are; the first that fits wins. Pure. Knows no type and no threshold of the
 * tree: a wrong line here and there is evened out by the shares over all lines. */
#include "line_kind.h"

#include <string.h>

static bool is_letter(uint8_t c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static uint8_t last_of(const lac__line *line)
{
    return line->text[line->length - 1];
}

static bool has(const lac__line *line, const char *needle)
{
    return memmem(line->text, line->length, needle, strlen(needle)) != NULL;
}

static bool starts(const lac__line *line, const char *prefix)
{
    size_t n = strlen(prefix);
    return line->length >= n && !memcmp(line->text, prefix, n);
}

/* ---- words that begin a statement ---- */

/* Eight bytes each, zero-filled: compared as one number. Sure words stand in no sentence's front;
 * the others do, so a line needs more than the word. */
#define W(text)                                                                                    \
    {                                                                                              \
        .bytes = text                                                                              \
    }
typedef union {
    char bytes[8];
    uint64_t number;
} word8;
static const word8 sure_words[] = {
    W("def"),     W("elif"),   W("async"),   W("lambda"),  W("const"),   W("static"),  W("int"),
    W("char"),    W("struct"), W("typedef"), W("enum"),    W("unsigne"), W("void"),    W("bool"),
    W("uint8_t"), W("size_t"), W("uint32_"), W("uint64_"), W("extern"),  W("func"),    W("impl"),
    W("mut"),     W("var"),    W("SELECT"),  W("FROM"),    W("WHERE"),   W("INSERT"),  W("VALUES"),
    W("UPDATE"),  W("DELETE"), W("CREATE"),  W("ALTER"),   W("DROP"),    W("JOIN"),    W("INNER"),
    W("LEFT"),    W("GROUP"),  W("ORDER"),   W("HAVING"),  W("UNION"),   W("COMMIT"),  W("BEGIN"),
    W("LIMIT"),   W("SET"),    W("PRIMARY"), W("FOREIGN"), W("CONSTRA"), W("endif"),   W("inline"),
    W("nonloca"), W("CASE"),   W("WHEN"),    W("ELSE"),    W("END"),     W("AND"),     W("OR"),
    W("ON"),      W("WITH"),   W("TRUNCAT"), W("RETURNI"), W("printf"),  W("namespa"),
};
static const word8 likely_words[] = {
    W("class"),  W("return"),  W("if"),      W("else"),    W("for"),    W("while"),   W("import"),
    W("from"),   W("try"),     W("except"),  W("with"),    W("raise"),  W("yield"),   W("print"),
    W("assert"), W("await"),   W("switch"),  W("case"),    W("break"),  W("continu"), W("goto"),
    W("public"), W("private"), W("functio"), W("let"),     W("fn"),     W("use"),     W("pub"),
    W("mod"),    W("package"), W("pass"),    W("finally"), W("global"), W("select"),  W("insert"),
    W("update"), W("delete"),  W("create"),  W("where"),   W("join"),   W("left"),    W("group"),
    W("order"),  W("and"),     W("set"),     W("values"),  W("new"),    W("throw"),   W("do"),
    W("double"),
};
#undef W

static bool listed(const word8 *words, size_t count, uint64_t number)
{
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found |= words[i].number == number;
    return found;
}

/* 2: a sure word, 1: a likely one, 0: neither. Words are cut after seven bytes. */
static int statement_word(const lac__line *line, size_t *length)
{
    word8 word = {.number = 0};
    size_t n = 0;
    while (n < line->length &&
           (is_letter(line->text[n]) || line->text[n] == '_' || (n && is_digit(line->text[n])))) {
        if (n < 7)
            word.bytes[n] = (char)line->text[n];
        n++;
    }
    *length = n;
    if (!n)
        return 0;
    if (listed(sure_words, sizeof sure_words / sizeof *sure_words, word.number))
        return 2;
    return listed(likely_words, sizeof likely_words / sizeof *likely_words, word.number);
}

/* ---- sentences ---- */

static uint32_t textual(const lac__line *line)
{
    return line->count[LAC__C_LETTER] + line->count[LAC__C_HIGH] + line->count[LAC__C_SPACE];
}

/* Mostly letters and spaces, and the marks of sentences. */
static bool sentence(const lac__line *line)
{
    const uint32_t *c = line->count;
    uint32_t n = (uint32_t)line->length;
    uint32_t soft = textual(line) + c[LAC__C_COMMA] + c[LAC__C_SENTENCE];
    if (c[LAC__C_HIGH] * 2 > n)
        return soft * 10 >= n * 8;
    if (c[LAC__C_SPACE] == 0)
        return soft == n && c[LAC__C_COMMA] == 0 && n < 24;
    return soft * 100 >= n * 86 && c[LAC__C_SPACE] * 20 >= n &&
           c[LAC__C_EQUALS] + c[LAC__C_BRACKET] <= 2;
}

/* ---- logs ---- */

static bool level_word(const lac__line *line)
{
    static const char *const levels[] = {"INFO", "WARN", "ERROR", "DEBUG", "TRACE", "FATAL"};
    size_t n = line->length < 72 ? line->length : 72;
    for (size_t i = 0; i + 4 <= n; i++) {
        uint8_t c = line->text[i];
        if (c < 'D' || c > 'W')
            continue;
        for (size_t k = 0; k < sizeof levels / sizeof *levels; k++)
            if (c == (uint8_t)levels[k][0] && strlen(levels[k]) <= line->length - i &&
                !memcmp(line->text + i, levels[k], strlen(levels[k])))
                return true;
    }
    return false;
}

/* Digits and the marks between them among the first bytes: enough for a date, a clock time with
 * seconds, or an address. */
static bool stamp(const lac__line *line)
{
    size_t n = line->length < 26 ? line->length : 26;
    unsigned digits = 0, marks = 0, first = 99;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = line->text[i];
        if (is_digit(c)) {
            digits++;
            first = first == 99 ? (unsigned)i : first;
        }
        marks += c == ':' || c == '-' || c == '/' || c == '.';
    }
    return digits >= 6 && marks >= 2 && first <= 5;
}

/* Right behind the time, somebody's name and what they say: "… - Anna: hello", "…] <anna> hello".
 */
static bool speaker(const lac__line *line)
{
    size_t i = 0, n = line->length < 64 ? line->length : 64, words = 0;
    const uint8_t *s = line->text;
    while (i < n && (!is_letter(s[i]) || is_digit(s[i > 0 ? i - 1 : 0]) ||
                     (i + 2 < n && s[i + 1] == 'M' && s[i + 2] == ' ')))
        i += is_letter(s[i]) && i + 1 < n && s[i + 1] == 'M' ? 2 : 1;
    if (i < 2 || i >= n || !(s[i - 1] == '<' || (s[i - 1] == ' ' && strchr("-]", s[i - 2]))))
        return false;
    while (i < n && (is_letter(s[i]) || s[i] >= 0x80 || (s[i] == ' ' && words++ < 1)))
        i++;
    return i + 1 < n && (s[i] == ':' || s[i] == '>') && s[i + 1] == ' ';
}

static lac__line_kind log_kind(const lac__line *line)
{
    const uint32_t *c = line->count;
    bool pairs = c[LAC__C_EQUALS] >= 3 && c[LAC__C_PAREN] == 0 && c[LAC__C_SEMICOLON] == 0 &&
                 !has(line, " = ");
    if (pairs && c[LAC__C_SPACE] + 1 >= c[LAC__C_EQUALS])
        return LAC__LINE_LOG;
    bool level = level_word(line) && (c[LAC__C_DIGIT] || c[LAC__C_BRACKET] || c[LAC__C_COLON]);
    bool boxed = *line->text == '[' && is_digit(line->text[line->length > 1]);
    if (boxed && c[LAC__C_BRACKET] >= 4 && !line->indent)
        return LAC__LINE_LOG;
    if (!stamp(line))
        return level && last_of(line) != ';' && last_of(line) != ')' && !line->indent
                   ? LAC__LINE_LOG
                   : LAC__LINE_NEUTRAL;
    if (level)
        return LAC__LINE_LOG;
    lac__line rest = {.text = line->text + 20, .length = line->length > 20 ? line->length - 20 : 0};
    unsigned hard = 0;
    for (size_t i = 0; i < rest.length; i++)
        hard += is_digit(rest.text[i]) || strchr("=[]/_{}\"|;", rest.text[i]) != NULL;
    if (speaker(line) && hard * 100 < rest.length * 10)
        return LAC__LINE_PROSE;
    return hard * 100 < rest.length * 6 && rest.length > 8 ? LAC__LINE_STAMPED : LAC__LINE_LOG;
}

/* ---- tables and trees of values ---- */

static bool table_row(const lac__line *line)
{
    const uint32_t *c = line->count;
    uint8_t last = last_of(line);
    if (c[LAC__C_TAB] && (line->regular || c[LAC__C_TAB] >= 2))
        return line->indent == 0 && last != ';' && last != '{';
    if (last == ';' || last == '{' || last == '(' || last == ')' || last == ',' || line->indent)
        return c[LAC__C_COMMA] >= 3 && last == ',' && !line->indent && c[LAC__C_SPACE] == 0;
    uint32_t most = c[LAC__C_COMMA];
    most = c[LAC__C_SEMICOLON] > most ? c[LAC__C_SEMICOLON] : most;
    most = c[LAC__C_PIPE] > most ? c[LAC__C_PIPE] : most;
    if (most < 2)
        return false;
    bool tight = !has(line, ", ") && !has(line, "; ");
    if (tight && (line->regular || c[LAC__C_SPACE] <= most))
        return c[LAC__C_PAREN] == 0 || line->regular;
    return line->regular && c[LAC__C_DIGIT] * 8 > line->length && c[LAC__C_PAREN] == 0;
}

/* `"key":` or a quoted value alone, or, in a long line without breaks, many quotes and colons. */
static bool json_row(const lac__line *line)
{
    const uint32_t *c = line->count;
    uint8_t first = *line->text, last = last_of(line);
    if (c[LAC__C_QUOTE] < 2)
        return false;
    if (first == '"' && (has(line, "\":") || has(line, "\" :")))
        return true;
    if (first == '"' && c[LAC__C_QUOTE] == 2 && (last == ',' || last == '"') && line->indent)
        return true;
    if ((first == '{' || first == '[') && c[LAC__C_QUOTE] >= 2 && last != ';')
        return has(line, "\":") || has(line, "\" :") || last == ']' || last == ',';
    return c[LAC__C_QUOTE] >= 6 && c[LAC__C_COLON] >= 3 && has(line, "\":") &&
           c[LAC__C_PAREN] * 4 < c[LAC__C_QUOTE];
}

static bool xml_row(const lac__line *line)
{
    const uint32_t *c = line->count;
    if (*line->text == '<' && line->length >= 3)
        return (is_letter(line->text[1]) || line->text[1] == '/' || line->text[1] == '?' ||
                line->text[1] == '!') &&
               c[LAC__C_ANGLE] >= 2 && last_of(line) == '>';
    return c[LAC__C_ANGLE] >= 4 && has(line, "</");
}

/* Length of `key:` with a space or nothing behind it; 0 when the line does not begin so. */
static size_t key_length(const lac__line *line, const uint8_t *at)
{
    size_t left = line->length - (size_t)(at - line->text), n = 0;
    while (n < left && n < 40 && (is_letter(at[n]) || is_digit(at[n]) || strchr("_-./", at[n])))
        n++;
    if (!n || n >= left || at[n] != ':')
        return 0;
    return n + 1 == left || at[n + 1] == ' ' ? n + 1 : 0;
}

/* True when one of the last keys was the same: people speak in turn, values have names of their
 * own. */
static bool key_again(lac__lines *lines, const uint8_t *key, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ key[i]) * 16777619u;
    bool again = false;
    for (int i = 0; i < 4; i++)
        again |= lines->keys[i] == hash;
    lines->keys[lines->keys_count++ % 4] = hash;
    return again;
}

static lac__line_kind yaml_kind(lac__lines *lines, const lac__line *line)
{
    const uint32_t *c = line->count;
    const uint8_t *at = line->text, *end = at + line->length;
    bool item = line->length > 2 && at[0] == '-' && at[1] == ' ';
    if (line->length == 3 && starts(line, "---"))
        return LAC__LINE_NEUTRAL;
    at += item ? 2 : 0;
    size_t key = key_length(line, at);
    if (!key) {
        /* key=value of a settings file; "- value" of a list of short plain values. */
        const uint8_t *equals = memchr(at, '=', line->length);
        if (equals && c[LAC__C_EQUALS] == 1 && !c[LAC__C_PAREN] && equals > at &&
            equals[-1] != ' ' && !memchr(at, ' ', (size_t)(equals - at)) && end[-1] != ';')
            return LAC__LINE_YAML;
        bool plain = item && c[LAC__C_SPACE] <= 2 && (size_t)(end - at) < 40;
        return plain && lines->last == LAC__LINE_YAML ? LAC__LINE_YAML : LAC__LINE_NEUTRAL;
    }
    const uint8_t *value = at + key;
    size_t words = 0;
    for (const uint8_t *p = value; p < end; p++)
        words += *p == ' ';
    bool capital = *at >= 'A' && *at <= 'Z';
    bool told = end[-1] == '.' || end[-1] == '!' || end[-1] == '?';
    if (item || line->indent)
        return words <= 6 || !told ? LAC__LINE_YAML : LAC__LINE_PROSE;
    if (key_again(lines, at, key) && words >= 2)
        return LAC__LINE_PROSE;
    if (capital || told)
        return words >= 1 ? LAC__LINE_PROSE : LAC__LINE_NEUTRAL;
    return words <= 5 ? LAC__LINE_YAML : LAC__LINE_PROSE;
}

/* ---- statements ---- */

static bool code_row(const lac__line *line)
{
    const uint32_t *c = line->count;
    uint8_t last = last_of(line);
    size_t word_length;
    int word = statement_word(line, &word_length);
    uint32_t operators = c[LAC__C_PAREN] + c[LAC__C_EQUALS] + c[LAC__C_BRACKET] + c[LAC__C_OTHER] +
                         c[LAC__C_SEMICOLON] + c[LAC__C_ANGLE];
    if (starts(line, "//") || starts(line, "#include") || starts(line, "#define") ||
        starts(line, "#if") || starts(line, "#e") || starts(line, "#!") || starts(line, "-- "))
        return true;
    if (*line->text == '@' && c[LAC__C_SPACE] == 0 && is_letter(line->text[line->length > 1]))
        return true;
    static const char *const openings[] = {"insert into ", "create table ", "create index ",
                                           "alter table ", "drop table ",   "delete from "};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++)
        if (starts(line, openings[i]))
            return true;
    if (starts(line, "select ") && has(line, " from "))
        return true;
    if (last == ';' && (c[LAC__C_PAREN] || c[LAC__C_EQUALS] || word || line->indent ||
                        c[LAC__C_OTHER] || c[LAC__C_SPACE] <= 2))
        return true;
    if (last == '{' && line->length > 1 && c[LAC__C_LETTER])
        return c[LAC__C_QUOTE] == 0 || c[LAC__C_PAREN];
    if (word == 2)
        return line->length > word_length
                   ? operators || last == ',' || last == ':' || word_length > 1
                   : true;
    if (word == 1)
        return last == ':' || (operators * 25 >= line->length && !sentence(line)) ||
               (operators && c[LAC__C_PAREN] && last == ')') || line->length == word_length ||
               (operators && line->indent);
    if (line->length > word_length && word_length && line->text[word_length] == '(' &&
        c[LAC__C_PAREN] >= 1)
        return true;
    if (word_length && c[LAC__C_EQUALS] && has(line, " = ") && !sentence(line))
        return true;
    if (line->indent && *line->text == '#' && line->indent >= 4)
        return true;
    return c[LAC__C_LETTER] && operators * 8 >= line->length && c[LAC__C_PAREN] >= 2;
}

/* What stands before the text of a list item, a heading or a quotation. */
static lac__line without_leader(const lac__line *line)
{
    size_t n = 0;
    while (n < line->length && n < 8 && strchr("#>*-+0123456789.) ", line->text[n]))
        n++;
    lac__line rest = *line;
    if (n == line->length || (n && line->text[n - 1] != ' '))
        return rest;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = line->text[i];
        rest.count[is_digit(c) ? LAC__C_DIGIT
                   : c == ' '  ? LAC__C_SPACE
                   : c == '.'  ? LAC__C_SENTENCE
                   : c == '>'  ? LAC__C_ANGLE
                   : c == ')'  ? LAC__C_PAREN
                               : LAC__C_OTHER]--;
    }
    rest.text += n;
    rest.length -= n;
    return rest;
}

lac__line_kind lac__line_kind_of(lac__lines *lines, const lac__line *line)
{
    const uint32_t *c = line->count;
    uint32_t text = c[LAC__C_LETTER] + c[LAC__C_HIGH];
    if (*line->text == '|' && c[LAC__C_PIPE] >= 2 && last_of(line) == '|')
        return LAC__LINE_MARKDOWN_TABLE;
    if (!text)
        return table_row(line) || (line->regular && c[LAC__C_DIGIT]) ? LAC__LINE_TABLE
                                                                     : LAC__LINE_NEUTRAL;
    if (json_row(line))
        return LAC__LINE_JSON;
    if (xml_row(line))
        return LAC__LINE_XML;
    lac__line_kind log = log_kind(line);
    if (table_row(line) && (log == LAC__LINE_NEUTRAL || !level_word(line)))
        return LAC__LINE_TABLE;
    if (log != LAC__LINE_NEUTRAL)
        return log;
    if (code_row(line))
        return LAC__LINE_CODE;
    lac__line_kind yaml = yaml_kind(lines, line);
    if (yaml != LAC__LINE_NEUTRAL)
        return yaml;
    lac__line rest = without_leader(line);
    if (sentence(&rest))
        return LAC__LINE_PROSE;
    return textual(&rest) * 100 >= rest.length * 75 && c[LAC__C_SPACE] >= 4 ? LAC__LINE_PROSE
                                                                            : LAC__LINE_NEUTRAL;
}
