/* The table of chat families. A row says by which marks a model's template is recognised and what
 * it prints. Rows are tried in order: a later version stands before the older one whose marks it
 * also has. Sources: the chat_template entries that the models' publishers ship. Data only. */
#include "family.h"

const lac_chat_family lac__chat_families[] = {
    {
        .name = "phi4", /* Phi-4 */
        .all = {"<|im_start|>", "<|im_sep|>"},
        .mode = LAC__SYSTEM_TURN,
        .system = "<|im_start|>system<|im_sep|>" TEXT "<|im_end|>",
        .user = "<|im_start|>user<|im_sep|>" TEXT "<|im_end|>",
        .assistant = "<|im_start|>assistant<|im_sep|>" TEXT "<|im_end|>",
        .generation = "<|im_start|>assistant<|im_sep|>",
    },
    {
        /* SmolLM2, Qwen2, Qwen2.5 and many tuned models. Templates that cut out thoughts or add
         * more than turns (Qwen3's) are other families. */
        .name = "chatml",
        .all = {"'<|im_start|>' + message", "'<|im_end|>'"},
        .none = {"<|im_sep|>", "</think>", "bos_token", "trim"},
        .mode = LAC__SYSTEM_TURN,
        .system = "<|im_start|>system\n" TEXT "<|im_end|>\n",
        .user = "<|im_start|>user\n" TEXT "<|im_end|>\n",
        .assistant = "<|im_start|>assistant\n" TEXT "<|im_end|>\n",
        .generation = "<|im_start|>assistant\n",
    },
    {
        /* Llama 3.1, 3.2, 3.3. The date is the one the template falls back to, so that equal
         * conversations have equal prompts on any day. */
        .name = "llama3.1",
        .all = {"<|start_header_id|>", "<|eot_id|>", "Cutting Knowledge Date: December 2023",
                "26 Jul 2024"},
        .mode = LAC__SYSTEM_LEADING,
        .trim = true,
        .begin = BOS "<|start_header_id|>system<|end_header_id|>\n\n"
                     "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n" SYSTEM
                     "<|eot_id|>",
        .system = "<|start_header_id|>system<|end_header_id|>\n\n" TEXT "<|eot_id|>",
        .user = "<|start_header_id|>user<|end_header_id|>\n\n" TEXT "<|eot_id|>",
        .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n" TEXT "<|eot_id|>",
        .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
    },
    {
        .name = "llama3",
        .all = {"<|start_header_id|>", "<|eot_id|>", "bos_token", "add_generation_prompt"},
        .none = {"Cutting Knowledge Date"},
        .mode = LAC__SYSTEM_TURN,
        .trim = true,
        .begin = BOS,
        .system = "<|start_header_id|>system<|end_header_id|>\n\n" TEXT "<|eot_id|>",
        .user = "<|start_header_id|>user<|end_header_id|>\n\n" TEXT "<|eot_id|>",
        .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n" TEXT "<|eot_id|>",
        .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
    },
    {
        .name = "llama2",
        .all = {"[INST]", "<<SYS>>", "bos_token + '[INST] '"},
        .mode = LAC__SYSTEM_IN_FIRST,
        .alternate = true,
        .trim_assistant = true,
        .trim_user_turn = true,
        .user = BOS "[INST] " TEXT " [/INST]",
        .user_system = "<<SYS>>\n" SYSTEM "\n<</SYS>>\n\n" TEXT,
        .assistant = " " TEXT " " EOS,
    },
    {
        .name = "mistral-v7-tekken", /* Mistral Small 24B and later */
        .all = {"'[INST]' + message['content'] + '[/INST]'", "'[SYSTEM_PROMPT]' +"},
        .mode = LAC__SYSTEM_TURN,
        .begin = BOS,
        .system = "[SYSTEM_PROMPT]" TEXT "[/SYSTEM_PROMPT]",
        .user = "[INST]" TEXT "[/INST]",
        .assistant = TEXT EOS,
    },
    {
        .name = "mistral-v7", /* Mistral Large 2411 */
        .all = {"[INST] ", "[SYSTEM_PROMPT] "},
        .mode = LAC__SYSTEM_TURN,
        .begin = BOS,
        .system = "[SYSTEM_PROMPT] " TEXT "[/SYSTEM_PROMPT]",
        .user = "[INST] " TEXT "[/INST]",
        .assistant = " " TEXT EOS,
    },
    {
        .name = "mistral-v3-tekken", /* Mistral Nemo */
        .all = {"\"[INST]\" + message[\"content\"] + \"[/INST]\"", "[AVAILABLE_TOOLS]"},
        .mode = LAC__SYSTEM_IN_LAST,
        .alternate = true,
        .begin = BOS,
        .user = "[INST]" TEXT "[/INST]",
        .user_system = SYSTEM "\n\n" TEXT,
        .assistant = TEXT EOS,
    },
    {
        .name = "mistral-v3", /* Mistral 7B v0.3, Mixtral 8x22B v0.3 */
        .all = {"\"[INST] \" + message[\"content\"] + \"[/INST]\"", "[AVAILABLE_TOOLS]"},
        .mode = LAC__SYSTEM_IN_LAST,
        .alternate = true,
        .trim_assistant = true,
        .begin = BOS,
        .user = "[INST] " TEXT "[/INST]",
        .user_system = SYSTEM "\n\n" TEXT,
        .assistant = " " TEXT EOS,
    },
    {
        .name = "mistral-v1", /* Mistral 7B v0.1 and v0.2, Mixtral 8x7B, with system messages */
        .all = {"\" [INST] \" + message[\"content\"] + \" [/INST]\"",
                "\" \" + message[\"content\"]"},
        .mode = LAC__SYSTEM_IN_FIRST,
        .alternate = true,
        .begin = BOS,
        .user = " [INST] " TEXT " [/INST]",
        .user_system = SYSTEM "\n\n" TEXT,
        .assistant = " " TEXT EOS,
    },
    {
        .name =
            "mistral-v0.1", /* as first published: no system message, a space after each answer */
        .all = {"'[INST] ' + message['content'] + ' [/INST]'", "eos_token + ' '"},
        .none = {"<<SYS>>"},
        .mode = LAC__SYSTEM_REFUSED,
        .alternate = true,
        .begin = BOS,
        .user = "[INST] " TEXT " [/INST]",
        .assistant = TEXT EOS " ",
    },
    {
        .name = "mistral-v0.2",
        .all = {"'[INST] ' + message['content'] + ' [/INST]'", "message['content'] + eos_token}}"},
        .none = {"<<SYS>>"},
        .mode = LAC__SYSTEM_REFUSED,
        .alternate = true,
        .begin = BOS,
        .user = "[INST] " TEXT " [/INST]",
        .assistant = TEXT EOS,
    },
    {
        .name = "gemma3",
        .all = {"<start_of_turn>", "<end_of_turn>", "first_user_prefix"},
        .mode = LAC__SYSTEM_IN_FIRST,
        .alternate = true,
        .trim = true,
        .begin = BOS,
        .user = "<start_of_turn>user\n" TEXT "<end_of_turn>\n",
        .user_system = SYSTEM "\n\n" TEXT,
        .assistant = "<start_of_turn>model\n" TEXT "<end_of_turn>\n",
        .generation = "<start_of_turn>model\n",
    },
    {
        .name = "gemma", /* Gemma 1 and 2 */
        .all = {"<start_of_turn>", "<end_of_turn>", "System role not supported"},
        .mode = LAC__SYSTEM_REFUSED,
        .alternate = true,
        .trim = true,
        .begin = BOS,
        .user = "<start_of_turn>user\n" TEXT "<end_of_turn>\n",
        .assistant = "<start_of_turn>model\n" TEXT "<end_of_turn>\n",
        .generation = "<start_of_turn>model\n",
    },
    {
        .name = "deepseek-r1-distill", /* the models distilled from R1 */
        .all = {"<｜User｜>", "<｜Assistant｜>", "'</think>'", "<｜Assistant｜><think>"},
        .none = {"is_first_sp"},
        .mode = LAC__SYSTEM_LAST_LEADS,
        .drop_thoughts = true,
        .begin = BOS SYSTEM,
        .user = "<｜User｜>" TEXT,
        .assistant = "<｜Assistant｜>" TEXT "<｜end▁of▁sentence｜>",
        .generation = "<｜Assistant｜><think>\n",
    },
    {
        .name = "deepseek-r1", /* after the row above, which lacks is_first_sp */
        .all = {"<｜User｜>", "<｜Assistant｜>", "'</think>'", "<｜Assistant｜><think>"},
        .mode = LAC__SYSTEM_JOINED,
        .drop_thoughts = true,
        .begin = BOS SYSTEM,
        .user = "<｜User｜>" TEXT,
        .assistant = "<｜Assistant｜>" TEXT "<｜end▁of▁sentence｜>",
        .generation = "<｜Assistant｜><think>\n",
    },
    {
        .name = "deepseek-v3",
        .all = {"<｜User｜>", "<｜Assistant｜>", "is_first_sp"},
        .none = {"</think>"},
        .mode = LAC__SYSTEM_JOINED,
        .begin = BOS SYSTEM,
        .user = "<｜User｜>" TEXT,
        .assistant = "<｜Assistant｜>" TEXT "<｜end▁of▁sentence｜>",
        .generation = "<｜Assistant｜>",
    },
    {
        .name = "deepseek-v2", /* V2, V2-Lite, Coder V2 Lite */
        .all = {"'User: '", "'Assistant: '", "'Assistant:'", "eos_token"},
        .mode = LAC__SYSTEM_TURN,
        .begin = BOS,
        .system = TEXT "\n\n",
        .user = "User: " TEXT "\n\n",
        .assistant = "Assistant: " TEXT EOS,
        .generation = "Assistant:",
    },
    {
        .name = "phi4-mini",
        .all = {"'<|' + message['role'] + '|>'", "<|end|>", "<|tool|>"},
        .mode = LAC__SYSTEM_TURN,
        .system = "<|system|>" TEXT "<|end|>",
        .user = "<|user|>" TEXT "<|end|>",
        .assistant = "<|assistant|>" TEXT "<|end|>",
        .generation = "<|assistant|>",
        .no_generation = EOS,
    },
    {
        .name = "phi3.5",
        .all = {"'<|system|>", "<|end|>", "== 'system' and message['content']", "eos_token"},
        .mode = LAC__SYSTEM_TURN,
        .skip_empty_system = true,
        .system = "<|system|>\n" TEXT "<|end|>\n",
        .user = "<|user|>\n" TEXT "<|end|>\n",
        .assistant = "<|assistant|>\n" TEXT "<|end|>\n",
        .generation = "<|assistant|>\n",
        .no_generation = EOS,
    },
    {
        .name = "phi3",
        .all = {"'<|system|>", "'<|user|>", "<|end|>", "eos_token"},
        .none = {"and message['content']", "'<|tool|>'"},
        .mode = LAC__SYSTEM_TURN,
        .system = "<|system|>\n" TEXT "<|end|>\n",
        .user = "<|user|>\n" TEXT "<|end|>\n",
        .assistant = "<|assistant|>\n" TEXT "<|end|>\n",
        .generation = "<|assistant|>\n",
        .no_generation = EOS,
    },
};
const size_t lac__chat_families_count = sizeof lac__chat_families / sizeof *lac__chat_families;
