static void NAME_print(const REAL *x)
{
    printf("FORMAT\n", NAME_label(x));
}
