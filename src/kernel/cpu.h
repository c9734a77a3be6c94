// Tests whether the machine has an instruction set, given by a name that the
// environment variable DIVVY_CPU accepts (listed in isa.c).
#ifndef DV_CPU_H
#define DV_CPU_H

// Returns whether the machine has this instruction set. The query may be slow
// on a virtual machine, so callers should cache the result.
int dv_cpu_has(const char *name);
#endif
