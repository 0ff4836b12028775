/* What comes before the model: scalers, length scales, selected features. A shift may have two
   words, so do not let the compiler reorder the sums (no -ffast-math). */
static inline void NAME_map(const REAL *x, REAL *row)
{
    int i;
    STEPS
}
