static void NAME_print(const REAL *x)
{
    int decided;
    const int index = NAME_index_decided(x, &decided);
    printf("FORMAT %d\n", NAME_labels[index], decided);
}
