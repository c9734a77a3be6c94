#!/bin/sh
# No type name is defined twice in src/ and include/: a reader, a debugger and a
# linker that optimises across files must know which one is meant. Types that
# one .c file alone uses have short names without the prefix dv_, and may have
# the name of another file's private type.
# names.sh SOURCE
cd "$1" || exit 2
find src include -name '*.[ch]' -exec awk '
    # "typedef … name;", "typedef struct name {" and "} name;" define name.
    # "typedef struct name name;" only declares a struct.
    /^typedef struct dv_[a-z0-9_]+ dv_[a-z0-9_]+;/ {next}
    /^(struct|union|enum) dv_[a-z0-9_]+ \{/ {name = $2; print name, FILENAME; tag = name; next}
    /^typedef (struct|union|enum).*\{$/ {inside = 1; next}
    inside && /^\} dv_[a-z0-9_]+;/ {name = $2; sub(";", "", name); print name, FILENAME; inside = 0; next}
    /^\}/ {inside = 0}
    /^typedef .*;$/ && match($0, /dv_[a-z0-9_]+(\)\(.*\)|\[.*\])?;$/) {
        name = substr($0, RSTART)
        sub(/[^a-z0-9_].*/, "", name)
        print name, FILENAME
    }' {} + | sort -u | awk '
    {n[$1]++; where[$1] = where[$1] " " $2}
    END {for (name in n) if (n[name] > 1) {print name " is defined in" where[name]; bad = 1} exit bad}'
