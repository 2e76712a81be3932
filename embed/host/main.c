/*
 * main.c - the host: a python3 with Torshi's engine in the place of _pickle.
 */
#include "torshi/embed.h"

int main(int argc, char **argv)
{
    int status;

    if (torshi_embed_start(argc, argv, &status) < 0)
        return status;
    return torshi_embed_run();
}
