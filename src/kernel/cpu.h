// Instruction sets by name, as DIVVY_CPU has them (isa.c lists them).
#ifndef DV_CPU_H
#define DV_CPU_H

// Has the machine got it? On a virtual one this may take long: ask once.
int dv_cpu_has(const char *name);
#endif
