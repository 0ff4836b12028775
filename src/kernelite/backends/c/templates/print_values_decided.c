static void NAME_print(const REAL *x)
{
    REAL values[NAME_VALUES];
    int k;
    NAME_value(x, values);
    for (k = 0; k < NAME_VALUES; k++)
        printf("%.17g ", (double)values[k]);
    printf("%d\n", NAME_decided(x));
}
