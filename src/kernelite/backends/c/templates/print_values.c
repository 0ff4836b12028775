static void NAME_print(const REAL *x)
{
    REAL values[NAME_OUTPUTS];
    int k;
    NAME_score(x, values);
    for (k = 0; k < NAME_OUTPUTS; k++)
        printf("%s%.17g", k ? " " : "", (double)values[k]);
    printf("\n");
}
