/* low: pairs that a class surely wins; high: and those that are open. The winner is proven when no
   other class can reach it, or only one that loses ties. */
static inline int NAME_proven(const double *scores, const double *bounds)
{
    int low[NAME_CLASSES] = {0}, high[NAME_CLASSES] = {0};
    int a, b, k = 0, best = 0;
    for (a = 0; a < NAME_CLASSES; a++)
        for (b = a + 1; b < NAME_CLASSES; b++, k++) {
            const int sure = fabs(scores[k]) > bounds[k], first = NAME_FIRST(scores[k]) > 0;
            low[a] += sure && first;
            low[b] += sure && !first;
            high[a] += !sure || first;
            high[b] += !sure || !first;
        }
    for (a = 1; a < NAME_CLASSES; a++)
        if (low[a] > low[best])
            best = a;
    for (a = 0; a < NAME_CLASSES; a++)
        if (a != best && (high[a] > low[best] || (high[a] == low[best] && a < best)))
            return 0;
    return 1;
}
