# Writes IN as a C array: cmake -DIN=… -DOUT=… -P embed.cmake
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
       "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "/* Made from live.html at build. */
#include <stddef.h>
extern const unsigned char lac__live_page[];
extern const size_t lac__live_page_size;
const unsigned char lac__live_page[] = {
${bytes}};
const size_t lac__live_page_size = sizeof lac__live_page;
")
