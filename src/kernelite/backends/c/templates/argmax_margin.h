/* How far the winner leads. */
static inline REAL NAME_margin(const REAL *scores)
{
    const int best = NAME_winner(scores);
    REAL margin = 0;
    int k, found = 0;
    for (k = 0; k < NAME_OUTPUTS; k++)
        if (k != best && (!found || scores[best] - scores[k] < margin)) {
            margin = scores[best] - scores[k];
            found = 1;
        }
    return margin;
}
