/* How far a score is from the other label. */
static inline REAL NAME_margin(const REAL *scores)
{
    const REAL gap = scores[0] - NAME_BOUNDARY;
    return gap < 0 ? -gap : gap;
}
