/* The class with the largest score, the first of them if several are. */
static inline int NAME_winner(const REAL *scores)
{
    int k, best = 0;
    for (k = 1; k < NAME_OUTPUTS; k++)
        if (scores[k] > scores[best])
            best = k;
    return best;
}
