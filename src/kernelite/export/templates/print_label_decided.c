static void NAME_print(const REAL *x)
{
    printf("FORMAT %d\n", NAME_label(x), NAME_decided(x));
}
