/* One-vs-one votes: pairs (0,1), (0,2), ...; a positive vote is for the first class of its pair, a
   score of zero for the second, and a tie goes to the earlier class. */
static inline int NAME_winner(const REAL *scores)
{
    int votes[NAME_CLASSES] = {0};
    int a, b, k = 0, best = 0;
    for (a = 0; a < NAME_CLASSES; a++)
        for (b = a + 1; b < NAME_CLASSES; b++, k++)
            votes[NAME_FIRST(scores[k]) > 0 ? a : b]++;
    for (a = 1; a < NAME_CLASSES; a++)
        if (votes[a] > votes[best])
            best = a;
    return best;
}
