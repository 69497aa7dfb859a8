/* The fake coordinator as a program: prints its endpoint, serves until its standard input ends. */
#include <stdio.h>
#include <unistd.h>

#include "fake.h"

int main(int argc, char **argv)
{
    fake *f = fake_start(argc > 1 ? argv[1] : "tcp://127.0.0.1:0");
    puts(fake_endpoint(f));
    fflush(stdout);
    char c;
    while (read(0, &c, 1) > 0)
        ;
    fake_stop(&f);
    return 0;
}
