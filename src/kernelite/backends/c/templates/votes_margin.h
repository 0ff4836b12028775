/* The smallest lead of the most-voted class over a rival. */
static inline REAL NAME_margin(const REAL *scores)
{
    const int winner = NAME_winner(scores);
    REAL margin = 0, lead;
    int a, b, k = 0, found = 0;
    for (a = 0; a < NAME_CLASSES; a++)
        for (b = a + 1; b < NAME_CLASSES; b++, k++)
            if (a == winner || b == winner) {
                lead = a == winner ? NAME_FIRST(scores[k]) : -NAME_FIRST(scores[k]);
                if (!found || lead < margin)
                    margin = lead;
                found = 1;
            }
    return margin;
}
