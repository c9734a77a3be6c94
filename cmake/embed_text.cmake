# Write a text file into a C file, as an array of its lines:
#
#   cmake -DOUT=rt.c -DFILE=src/emit/text/rt.h -DNAME=dv_rt_lines
#         -DHEADER=emit/emit.h -P cmake/embed_text.cmake
#
# HEADER declares the array.
cmake_minimum_required(VERSION 3.20)
if(NOT OUT OR NOT FILE OR NOT NAME OR NOT HEADER)
    message(FATAL_ERROR "embed_text.cmake: OUT, FILE, NAME and HEADER must be given")
endif()
file(READ "${FILE}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\",\n    \"" text "${text}")
get_filename_component(from "${FILE}" NAME)
file(WRITE "${OUT}"
     "// Made by cmake/embed_text.cmake from ${from}. Do not edit.\n"
     "#include \"${HEADER}\"\n\n"
     "const char *const ${NAME}[] = {\n    \"${text}\",\n    NULL,\n};\n")
