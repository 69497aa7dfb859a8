/* Default, aliases and rows of models, from the options. Pure. */
#ifndef LAC_COORDINATOR_MODEL_NAMES_H
#define LAC_COORDINATOR_MODEL_NAMES_H

#include "options.h"

/* Fills options->model_names from its texts. LAC_EINVAL names the option and the word. */
lac_status lac__model_names_parse(lac__options *options, lac_error *err);

#endif
