/* Scores of a row of NAME_FEATURES numbers: NAME_OUTPUTS of them, those of all machines added up. */
static inline void NAME_score(const REAL *x, REAL *scores)
{
    REAL own[NAME_OUTPUTS];
    int k;
    for (k = 0; k < NAME_OUTPUTS; k++)
        scores[k] = 0;
    ADDING
}
