/* Reads rows of NAME_FEATURES numbers, separated by spaces, tabs or commas, a row a line; writes
   an answer a line. Ends with 1 at the first bad line. */
#include <stdio.h>
#include <stdlib.h>

#include "HEADER"

static int NAME_bad(unsigned long line, const char *problem)
{
    fprintf(stderr, "line %lu: %s\n", line, problem);
    return EXIT_FAILURE;
}

static int NAME_number(const char *token, REAL *value)
{
    char *end;
    const double number = strtod(token, &end);
    *value = (REAL)number;
    return *end == '\0' && *value - *value == 0;
}

PRINT
int main(void)
{
    REAL x[NAME_FEATURES] = {0};
    char token[64];
    unsigned long line = 1;
    int c, used = 0, read = 0;
    do {
        c = getchar();
        if (c == ' ' || c == '\t' || c == ',' || c == '\r' || c == '\n' || c == EOF) {
            if (used) {
                token[used] = '\0';
                if (read == NAME_FEATURES)
                    return NAME_bad(line, "too many numbers");
                if (!NAME_number(token, &x[read++]))
                    return NAME_bad(line, "not a finite number");
                used = 0;
            }
            if (read && (c == '\n' || c == EOF)) {
                if (read < NAME_FEATURES)
                    return NAME_bad(line, "too few numbers");
                NAME_print(x);
                read = 0;
            }
            line += c == '\n';
        } else if (used + 1 < (int)sizeof token) {
            token[used++] = (char)c;
        } else {
            return NAME_bad(line, "a number is too long");
        }
    } while (c != EOF);
    return ferror(stdin) || fflush(stdout) ? NAME_bad(line, "cannot read or write") : EXIT_SUCCESS;
}
