static void NAME_print(const REAL *x)
{
    REAL values[NAME_OUTPUTS];
    int k;
    NAME_score(x, values);
    for (k = 0; k < NAME_OUTPUTS; k++)
        printf("%.17g ", (double)values[k]);
    printf("%d\n", NAME_decided(x));
}
