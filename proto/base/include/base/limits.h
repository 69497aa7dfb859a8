/* Every bound of the system in one place. A queue, loop, string or message that has no line here
 * has no business growing. Full means "busy" or a clear error, never "wait for ever". */
#ifndef LAC_BASE_LIMITS_H
#define LAC_BASE_LIMITS_H

enum {
    /* Model facts */
    LAC_LAYERS_MAX = 1024,
    LAC_UNITS_MAX = 2 * LAC_LAYERS_MAX,
    LAC_CLASSES_MAX = 16,
    LAC_VOCAB_MAX = 1 << 20,
    LAC_CONTEXT_MAX = 1 << 20,
    LAC_GGUF_KEYS_MAX = 65536,
    LAC_GGUF_TENSORS_MAX = 65536,
    LAC_GGUF_ARRAY_MAX = 4 << 20,
    LAC_GGUF_STRING_MAX = 1 << 20,
    LAC_GGUF_ALIGN_MAX = 65536,
    LAC_GGUF_NAME_MAX = 255,   /* of a key or tensor */
    LAC_GGUF_SPLITS_MAX = 512, /* files of one model */
    LAC_HIDDEN_MAX = 1 << 17,
    LAC_FFN_MAX = 1 << 20,
    LAC_HEADS_MAX = 1024,
    LAC_EXPERTS_MAX = 1024, /* of one FFN */
    LAC_HEAD_DIM_MAX = 1024,
    LAC_KV_SIZES_MAX = 8,           /* different KV page sizes in one model */
    LAC_PREFIX_CACHE_MAX = 1 << 18, /* blocks one prefix cache knows */

    /* Plans */
    LAC_PLAN_BYTES_MAX = 8 << 20,
    LAC_PLAN_PATCHES_BYTES_MAX = 1 << 30, /* the companion file */
    LAC_PLAN_CHECKS_MAX = 32,             /* task scores and robustness checks of a certificate */
    LAC_PLAN_NOTES_MAX = 1024,
    LAC_PLAN_CANARIES_MAX = 8,            /* texts of one input type */
    LAC_PLAN_CANARY_BYTES_MAX = 1024,     /* of one of them */
    LAC_METHOD_MAX = 160,          /* text of a certificate's method */
    LAC_CERTIFICATE_DOCUMENTS = 60, /* a certificate speaks of no fewer */
    LAC_CERTIFICATE_REQUESTS = 300,
    LAC_PATCH_RANK_STEP = 8, /* ranks are multiples; full rank is the model's width */

    /* One request */
    LAC_PROMPT_BYTES_MAX = 8 << 20,
    LAC_MESSAGES_MAX = 1024,
    LAC_ROLE_BYTES_MAX = 32,
    LAC_CHOICES_MAX = 8, /* answers one HTTP request may ask for: one request of the core each */
    LAC_GRAMMAR_BYTES_MAX = 65536, /* a schema the answer must match */
    LAC_TOOLS_MAX = 128,           /* functions one request offers */
    LAC_TOOLS_BYTES_MAX = 262144,  /* of their JSON */
    LAC_TOOLS_REQUIRED_MAX = 16,   /* of them while one must be called */
    LAC_CALLS_MAX = 128,           /* calls of one message */
    LAC_STOPS_MAX = 4,
    LAC_STOP_BYTES_MAX = 64,
    LAC_LOGIT_BIAS_MAX = 300,
    LAC_TOP_LOGPROBS_MAX = 20,
    LAC_MODEL_NAME_MAX = 64,
    LAC_TOKEN_TEXT_MAX = 512, /* bytes one step may release for one sequence */

    /* Wire */
    LAC_FRAME_MAX = 16 << 20,       /* worker plane */
    LAC_CLIENT_FRAME_MAX = 8 << 20, /* client plane */
    LAC_UNPACK_BUDGET_MAX = 32 << 20,
    LAC_UNKNOWN_FIELDS_MAX = 16,
    LAC_STEP_ITEMS_MAX = 1024, /* sequences reported by one StepOutput */
    LAC_RUNNING_MAX = 4096,    /* requests a Hello may claim */
    LAC_ALLOWED_MAX = 4096,    /* keys one plane lets in */
    LAC_PEERS_MAX = 8192,      /* connections one listening socket remembers */
    LAC_CREDIT_MAX = 65536,    /* messages one grant of credit may allow */
    LAC_REASON_MAX = 240,
    LAC_ENDPOINT_MAX = 256,
    LAC_NAME_MAX = 64,
    LAC_HINT_TEXT_MAX = 64,    /* of what claims to be one */
    LAC_MASK_TEXT_MAX = 12288, /* "A1023," times the units there may be */
    LAC_WHY_MAX = 120,         /* why a request ran as it did */

    /* Cluster */
    LAC_GROUPS_MAX = 256,
    LAC_RANKS_MAX = 64,      /* ranks of one group */
    LAC_FABRIC_BLOB_MAX = 4096,   /* bytes of a rank's address */
    LAC_GROUP_CONFIG_MAX = 1024,  /* bytes of the config that the ranks of a group agree on */
    LAC_HOSTS_MAX = 64,           /* machines of one topology */
    LAC_NODES_MAX = 256,          /* NUMA nodes of one topology */
    LAC_GPUS_MAX = 256,           /* GPUs of one topology */
    LAC_FABRIC_PENDING_MAX = 512, /* messages of a rank that are on their way */
    LAC_SLOTS_MAX = 1024,    /* sequences one group runs at once */
    LAC_REQUESTS_MAX = 4096, /* requests the coordinator tracks */
    LAC_CLIENTS_MAX = 4096,
    LAC_MODELS_MAX = 64,  /* distinct names served */
    LAC_PRIORITY_MAX = 2, /* priorities are −2 … 2 */
    LAC_PREFIX_BLOCK_BYTES = 256,
    LAC_PREFIX_BLOCKS_MAX = 32, /* of a prompt that routing looks at */
    LAC_PREFIX_TABLE = 1024,    /* blocks remembered a group */
    LAC_FREEZE_PERCENT = 30,    /* of the READY groups vanishing at once: we suspect ourselves */
    LAC_BREAKER_FAILURES = 5,   /* in a row: the group gets nothing for LAC_BREAKER_OPEN_MS */
    LAC_BREAKER_SUCCESSES = 2,  /* one at a time: it gets everything again */
    LAC_FENCED_MAX = 1024,      /* incarnations remembered as dead */
    LAC_MOVES_MAX = 2,          /* times one request may change its group */
    LAC_CRASHES_MAX = 2,      /* groups that may die under one request before it is called poison */
    LAC_RETRY_FLOOR = 16,     /* retries of 10 s that are allowed however few requests came */
    LAC_QUARANTINE_MAX = 256, /* contents remembered as deadly */
    LAC_GUARD_DEATHS = 3,     /* groups dead of one content within LAC_GUARD_MS: it moves no more */
    LAC_PROTOCOL_ERRORS_MAX = 8,    /* of one session before its group is fenced */
    LAC_BAD_FRAMES_MAX = 64,        /* of one connection before it is ignored */
    LAC_PENDING_TEXT_MAX = 4 << 20, /* bytes of answer kept for a client that grants no credit */
    LAC_PATH_FEATURES_MAX = 64,     /* measures one PathReply explains */
    LAC_MODEL_CLASSES_MAX = 32,     /* classes known of one model, old plans included */
    LAC_PLAN_CLASSES_MAX = 256,     /* classes one PlanReply lists */
    LAC_GUARDS_MAX = 256,           /* (class, type) pairs that are watched */
    LAC_DECISIONS_MAX = 4096,       /* decisions remembered */
    LAC_PATHS_KEPT = 1024,          /* requests whose path can be asked for afterwards */
    LAC_ALIASES_MAX = 64,           /* names of models */
    LAC_ROUTES_MAX = 64,            /* rows that send a type and task to another model */
    LAC_TENANTS_MAX = 8192,         /* names of keys seen at once */
    LAC_TENANT_MODELS_MAX = 16,     /* one tenant is allowed by name */
    LAC_TENANT_WEIGHT_MAX = 1000,
    LAC_QUOTA_MAX = 1000000000,    /* requests or tokens a minute */
    LAC_CHECKS_MAX = 24,            /* values that status says are watched */
    LAC_DECIDED_MAX = 32,           /* requests of lately that status shows */
    LAC_TOKENS_MESSAGE_MAX = 1024,  /* tokens in one Tokens message */

    /* Batch jobs */
    LAC_JOB_ITEMS_MAX = 50000,       /* of one job */
    LAC_JOB_KEY_MAX = 64,            /* bytes of an idempotency key */
    LAC_JOB_CUSTOM_ID_MAX = 256,     /* bytes of the name a client gives an item */
    LAC_FILES_MAX = 1000,            /* uploads in one store */
    LAC_FILE_NAME_MAX = 255,
    LAC_FILE_PURPOSE_MAX = 32,
    LAC_JOB_ABOUT_MAX = 8192,        /* bytes an API keeps beside its job */
    LAC_JOB_REPLY_MAX = 4 << 20,     /* bytes of an item's reply */
    LAC_JOB_RESULTS_PAGE_MAX = 1024, /* results one answer shows */
    LAC_JOB_WINDOW_MAX_S = 30 * 86400,
    LAC_JOB_ATTEMPTS = 3,            /* starts of one item unless its job says otherwise */
    LAC_JOB_ATTEMPTS_MAX = 100,
    LAC_JOBS_KEPT_MAX = 10000,       /* jobs in one store, ended ones included */
    LAC_JOBS_IN_FLIGHT_MAX = 256,    /* items at the core at once */
    LAC_BATCH_QUEUED_MAX = 64,       /* of those, in the core's queue */
    LAC_JOBS_PAGE_MAX = 100,         /* jobs or files one list shows */
    LAC_STORE_CALLS_MAX = 4096,      /* calls that wait for the store's thread */
    LAC_STORE_BYTES_WAITING_MAX = 256 << 20, /* and the bytes they bring */
    LAC_STORE_GROUP_MAX = 256,       /* calls that share one commit */
    LAC_STORE_PAGE_BYTES = 3 << 20,  /* results one call reads, about */

    /* HTTP (control-plane rules: small, counted, with deadlines) */
    LAC_HTTP_URL_MAX = 8192,
    LAC_HTTP_HEADERS_BYTES_MAX = 16384,
    LAC_HTTP_HEADERS_MAX = 64,
    LAC_HTTP_BODY_MAX = 8 << 20,
    LAC_HTTP_CHUNKS_MAX = 16384,
    LAC_HTTP_CONNECTIONS_MAX = 4096,
    LAC_HTTP_PER_ADDRESS_MAX = 64,
    LAC_HTTP_WRITE_QUEUE_MAX = 65536,
    LAC_JSON_DEPTH_MAX = 32,
    LAC_JSON_VALUES_MAX = (1 << 20) + 65536, /* a prompt of ids fills a context, plus the rest */
    LAC_HTTP_HOLD_MAX = 4096,                /* pipelined bytes kept while a request is served */
    LAC_HTTP_REPLY_MAX = 64 << 20,           /* one reply that is not streamed */
    LAC_HTTP_PENDING_MAX = 8 << 20,          /* of a stream whose reader is slow */
    LAC_HTTP_INLINE_BODY_MAX = 65536,        /* larger bodies are parsed off the loop */
    LAC_HTTP_BODY_RATE_MIN = 1024,           /* bytes a second, after the grace time */
    LAC_IDEMPOTENT_MAX = 1024,               /* keys remembered, running ones included */
    LAC_IDEMPOTENT_BYTES = 1 << 20,          /* of one answer that is kept */
    LAC_IDEMPOTENT_ALL_BYTES = 64 << 20,     /* of all of them */
    LAC_TRACE_MAX = 55,                      /* of a traceparent */
    LAC_HTTP_CREDIT = 64,                    /* Tokens messages on their way to one exchange */

    /* Times, milliseconds */
    LAC_HEARTBEAT_MS = 500,
    LAC_SUSPECT_MS = 2000,
    LAC_LEASE_MS = 6000,
    LAC_HUNG_MS = 20000,       /* busy without a step */
    LAC_STALLED_MS = 3000,     /* busy without a step: no new work */
    LAC_NOBODY_MS = 30000,     /* wait for a READY group of a model */
    LAC_FLEET_WAIT_MS = 300000, /* the same while a group may still be launched for it */
    LAC_DEAD_SHOWN_MS = 60000, /* a dead group stays visible in status */
    LAC_DRAIN_MS = 30000,
    LAC_FORM_MS = 120000,      /* for all ranks of a group to come, from the first on */
    LAC_FORM_LOAD_MS = 600000, /* and then for all of them to load */
    LAC_FABRIC_STEP_MS = 20000, /* a rank that says nothing for so long within a step is hung */
    LAC_FABRIC_BYE_MS = 1000,   /* wait for the other ranks' goodbye */
    LAC_RENDEZVOUS_BEAT_MS = 200, /* a rank of this machine to who started it */
    LAC_RETRY_WAIT_MS = 10000, /* for the retry budget, then the request is given up */
    LAC_QUARANTINE_MS = 3600000,
    LAC_GUARD_MS = 300000,
    LAC_PRIORITY_MS = 10000, /* of waiting that one step of priority is worth */
    LAC_PREFIX_MS = 120000,  /* a group is taken to keep a block so long */
    LAC_FREEZE_MS = 30000,   /* the longest time without verdicts */
    LAC_SICK_MS = 60000,     /* slower than its own baseline: drained */
    LAC_BREAKER_OPEN_MS = 30000,
    LAC_JOB_LEASE_MS = 900000,       /* the longest one attempt at a batch item may take */
    LAC_JOB_RETRY_MS = 1000,         /* before an item that could not be served is tried again */
    LAC_JOB_RETRY_MAX_MS = 60000,
    LAC_STORE_TICK_MS = 1000,        /* between two looks at deadlines and leases */
    LAC_STORE_PROBE_MS = 2000,       /* between two looks whether a full disk has room again */
    LAC_BROWNOUT_RISE_MS = 1000,  /* of saturation before it begins */
    LAC_BROWNOUT_CALM_MS = 10000, /* of calm before it ends */
    LAC_HTTP_HEADER_MS = 10000,
    LAC_HTTP_IDLE_MS = 60000,
    LAC_HTTP_BODY_GRACE_MS = 5000,
    LAC_HTTP_LINGER_MS = 2000, /* a refused client's wait for the end of our reply */
    LAC_SSE_PING_MS = 15000,
    LAC_IDEMPOTENT_MS = 600000, /* an answer is kept so long */
    LAC_SLOW_READER_MS = 30000,
};

#endif
