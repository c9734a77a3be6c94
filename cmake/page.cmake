# Put the parts of the report's page together and write them into a C file, as
# an array of lines:
#
#   cmake -DOUT=page.c -DDIR=src/report/page "-DSCRIPTS=model.js;main.js"
#         -P cmake/page.cmake
#
# In index.html a line @STYLE@ stands for style.css, and @SCRIPT@ for the
# scripts in their order.
cmake_minimum_required(VERSION 3.20)
if(NOT OUT OR NOT DIR OR NOT SCRIPTS)
    message(FATAL_ERROR "page.cmake: OUT, DIR and SCRIPTS must be given")
endif()
file(READ "${DIR}/index.html" page)
file(READ "${DIR}/style.css" style)
set(script "")
foreach(name IN LISTS SCRIPTS)
    file(READ "${DIR}/${name}" text)
    string(APPEND script "${text}")
endforeach()
string(REPLACE "@STYLE@\n" "${style}" page "${page}")
string(REPLACE "@SCRIPT@\n" "${script}" page "${page}")
file(WRITE "${OUT}.html" "${page}")
set(FILE "${OUT}.html")
set(NAME dv_page_lines)
set(HEADER report/report.h)
include("${CMAKE_CURRENT_LIST_DIR}/embed_text.cmake")
