static void NAME_print(const REAL *x)
{
    REAL values[NAME_VALUES];
    int k;
    NAME_value(x, values);
    for (k = 0; k < NAME_VALUES; k++)
        printf("%s%.17g", k ? " " : "", (double)values[k]);
    printf("\n");
}
