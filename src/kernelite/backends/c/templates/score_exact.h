/* Scores of a row of NAME_FEATURES numbers: NAME_OUTPUTS of them. */
static inline void NAME_score(const REAL *x, REAL *scores)
{
    NAME_ROW(x);
    NAME_exact(row, scores);
    NAME_ADD(x, scores);
}
