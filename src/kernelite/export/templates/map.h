/* The map that came before the model: scalers, length scales. Its shift may have two words, so do
   not let the compiler reorder the sums (no -ffast-math). */
static inline void NAME_map(const REAL *x, REAL *row)
{
    int i;
    for (i = 0; i < NAME_FEATURES; i++)
        row[i] = ((x[i] - NAME_shift[i]) - NAME_LOW(i)) * NAME_scale[i];
}
