# Write target descriptions into a C file, as the table of target/builtin.h:
#
#   cmake -DOUT=builtin.c "-DFILES=targets/spyre.dv;targets/wormhole.dv"
#         -P cmake/embed.cmake
#
# Each text becomes one string literal, a line of source for a line of text.
# C11 promises room for 4095 characters in one; longer files are refused.
cmake_minimum_required(VERSION 3.20)
if(NOT OUT OR NOT FILES)
    message(FATAL_ERROR "embed.cmake: OUT and FILES must be given")
endif()

set(texts "")
set(rows "")
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME_WE)
    string(MAKE_C_IDENTIFIER "${name}_text" array)
    file(READ "${file}" text)
    string(LENGTH "${text}" len)
    if(len GREATER 4095)
        message(FATAL_ERROR "${file} has ${len} characters, at most 4095 fit")
    endif()
    if(text MATCHES "\n *about *= *\"([^\"\n]*)\"")
        set(about "${CMAKE_MATCH_1}")
    else()
        message(FATAL_ERROR "${file} has no property about = \"...\"")
    endif()
    string(REPLACE "\\" "\\\\" about "${about}")
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    string(APPEND texts
           "static const char ${array}[] =\n    \"${text}\";\n\n")
    string(APPEND rows
           "    {\"${name}\", \"${about}\",\n"
           "     ${array}, sizeof ${array} - 1},\n")
endforeach()

file(WRITE "${OUT}"
     "// Made by cmake/embed.cmake from targets/*.dv. Do not edit.\n"
     "#include \"target/builtin.h\"\n\n"
     "${texts}"
     "const struct dv_builtin dv_builtins[] = {\n"
     "${rows}"
     "    {NULL, NULL, NULL, 0},\n"
     "};\n")
