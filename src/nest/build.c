// Makes nests by calls, and describes them (dv_nest_make, dv_nest_describe).
#include "base/options.h"
#include "nest/nest.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { PACKABLE = 1 << DV_N_OPERANDS }; // one more than any mask of operands

// Fails with an error that names the rule which the description of a nest
// breaks.
__attribute__((format(printf, 3, 4))) static dv_status
refuse(dv_diag *diag, dv_nest_rule rule, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dv_status st = dv_fail(diag, DV_E_NEST, DV_NOWHERE, "%s: %s",
                           dv_nest_rule_name(rule), text);
    dv_diag_set_rule(diag, (int)rule);
    return st;
}

static dv_status take_name(dv_nest *n, const char *name, dv_diag *diag)
{
    size_t len = name ? strlen(name) : 0;
    int is_name = len > 0 && !(name[0] >= '0' && name[0] <= '9');
    for (size_t i = 0; i < len; i++)
        is_name =
            is_name && (name[i] == '_' || (name[i] >= '0' && name[i] <= '9') ||
                        (name[i] >= 'a' && name[i] <= 'z') ||
                        (name[i] >= 'A' && name[i] <= 'Z'));
    if (!is_name)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE,
                       "'%.60s' is no name of a nest; a name has letters, "
                       "digits and _, and does not begin with a digit",
                       name ? name : "");
    if (len > DV_NEST_MAX_NAME)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "the name has %zu letters, the most is %d", len,
                       (int)DV_NEST_MAX_NAME);
    memcpy(n->name, name, len);
    return DV_OK;
}

static dv_status take_prim(dv_prim *out, const char *word, dv_diag *diag)
{
    int p = word ? dv_prim_find(word, strlen(word)) : DV_PRIM_NONE;
    if (p < 0)
        return refuse(diag, DV_NEST_RULE_PRIMITIVE,
                      "there is no primitive '%.60s'", word);
    *out = (dv_prim)p;
    return DV_OK;
}

static dv_status take_loop(dv_nest *n, int i, const dv_nest_loop *l,
                           dv_diag *diag)
{
    if ((unsigned)l->type > DV_NEST_K)
        return refuse(diag, DV_NEST_RULE_DIMENSION,
                      "dimension %d has type %d, 0 to 3 are possible", i,
                      (int)l->type);
    if ((unsigned)l->exec > DV_NEST_PRIM)
        return refuse(diag, DV_NEST_RULE_EXECUTION,
                      "dimension %d has execution %d, 0 to 2 are possible", i,
                      (int)l->exec);
    if (l->size < 0 || l->whole < 0)
        return refuse(diag, DV_NEST_RULE_DIMENSION,
                      "dimension %d has size %" PRId64 " of %" PRId64, i,
                      l->size, l->whole);
    if (l->pack >= PACKABLE)
        return refuse(diag, DV_NEST_RULE_MARKS,
                      "dimension %d packs operands %#x, bits 0 to 2 are "
                      "possible",
                      i, (unsigned)l->pack);
    n->dims[i] = (dv_nest_dim){.type = l->type,
                               .exec = l->exec,
                               .size = l->size,
                               .stride = {l->in0, l->in1, l->out, l->in2},
                               .whole = l->whole,
                               .pack = (uint8_t)l->pack};
    return DV_OK;
}

static dv_status take_operand(dv_nest *n, int o, const dv_nest_info *info,
                              dv_diag *diag)
{
    const char *type = info->types[o];
    int t = type ? dv_dtype_find(type, strlen(type)) : (int)info->dtype;
    if (t < 0)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "%s: '%.60s' is no element type",
                       dv_nest_operand_name(o), type);
    if (type && info->values[o])
        return refuse(diag, DV_NEST_RULE_OPERANDS,
                      "%s has a type and is a constant",
                      dv_nest_operand_name(o));
    // A type equal to the nest's is stored as 0, so that equal nests have equal
    // fields.
    n->types[o] = (uint8_t)(t == (int)info->dtype ? 0 : 1 + t);
    if (info->values[o]) {
        n->constants |= (uint8_t)(1 << o);
        n->value[o] = *info->values[o];
    }
    return DV_OK;
}

static dv_status take_all(dv_nest *n, const dv_nest_info *info, dv_diag *diag)
{
    if ((unsigned)info->dtype >= DV_N_DTYPES)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE, "there is no type %d",
                       (int)info->dtype);
    n->dtype = info->dtype;
    DV_TRY(take_name(n, info->name, diag));
    DV_TRY(take_prim(&n->first, info->first, diag));
    DV_TRY(take_prim(&n->main, info->main, diag));
    DV_TRY(take_prim(&n->last, info->last, diag));
    DV_TRY(dv_options_list(info->loops, info->n_loops, "loops", diag));
    if (info->n_loops > DV_NEST_MAX_DIMS)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "there are %zu dimensions, a nest has %d at most",
                       info->n_loops, (int)DV_NEST_MAX_DIMS);
    n->n_dims = (int32_t)info->n_loops;
    for (int i = 0; i < n->n_dims; i++)
        DV_TRY(take_loop(n, i, &info->loops[i], diag));
    for (int o = 0; o < DV_NEST_PLACES; o++)
        DV_TRY(take_operand(n, o, info, diag));
    if (info->look < 0 || info->look > DV_N_OPERANDS)
        return refuse(diag, DV_NEST_RULE_LOOK,
                      "operand %d is indexed, 1 to 3 are possible", info->look);
    if (info->look && (info->index_stride < 0 || info->index_count < 0))
        return refuse(diag, DV_NEST_RULE_LOOK,
                      "%" PRId64 " indices in steps of %" PRId64,
                      info->index_count, info->index_stride);
    if (info->pack >= PACKABLE)
        return refuse(diag, DV_NEST_RULE_MARKS,
                      "operands %#x are packed, bits 0 to 2 are possible",
                      (unsigned)info->pack);
    n->look = (uint8_t)info->look;
    n->index_stride = info->look ? info->index_stride : 0;
    n->index_count = info->look ? info->index_count : 0;
    n->pack = (uint8_t)info->pack;
    n->mean = info->mean != 0;
    n->laid = info->laid != 0;
    return DV_OK;
}

dv_status dv_nest_make(dv_nest **out, const dv_nest_info *info, dv_diag *diag)
{
    dv_nest_info i = DV_NEST_INFO_INIT;
    DV_TRY(dv_options_read(&i, sizeof i, info, "dv_nest_info", diag));
    dv_nest *n = dv_alloc(sizeof *n);
    if (!n)
        return dv_nomem(diag);
    *n = (dv_nest){.src = NULL};
    dv_status st = take_all(n, &i, diag);
    if (st == DV_OK)
        *out = n;
    else
        dv_release(n);
    return st;
}

static const char *prim_word(dv_prim p)
{
    return p == DV_PRIM_NONE ? NULL : dv_prim_get(p)->name;
}

void dv_nest_describe(dv_nest_info *out, dv_nest_loop loops[DV_NEST_MAX_DIMS],
                      double values[DV_NEST_PLACES], const dv_nest *n)
{
    *out = (dv_nest_info){.size = sizeof *out,
                          .name = n->name,
                          .dtype = n->dtype,
                          .first = prim_word(n->first),
                          .main = prim_word(n->main),
                          .last = prim_word(n->last),
                          .loops = loops,
                          .n_loops = (size_t)n->n_dims,
                          .mean = n->mean,
                          .laid = n->laid,
                          .pack = n->pack,
                          .look = n->look,
                          .index_stride = n->index_stride,
                          .index_count = n->index_count};
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        const int64_t *s = d->stride;
        loops[i] =
            (dv_nest_loop){d->type,   d->exec,   d->size,  s[DV_IN0], s[DV_IN1],
                           s[DV_OUT], s[DV_IN2], d->whole, d->pack};
    }
    for (int o = 0; o < DV_NEST_PLACES; o++) {
        values[o] = n->value[o];
        if (n->constants >> o & 1)
            out->values[o] = &values[o];
        else if (n->types[o])
            out->types[o] = dv_dtype_get(dv_nest_dtype(n, o))->name;
    }
}
