/* Scores of a row of NAME_FEATURES numbers: NAME_OUTPUTS of them, by the form where that is proven
   to be good enough, else by the exact model. */
static inline void NAME_score(const REAL *x, REAL *scores)
{
    REAL bounds[NAME_OUTPUTS];
    NAME_ROW(x);
    NAME_bounded(row, scores, bounds);
    if (!NAME_SETTLED(scores, bounds))
        NAME_exact(row, scores);
}
