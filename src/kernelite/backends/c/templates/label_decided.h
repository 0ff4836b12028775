/* The place of a row's label in NAME_labels; *decided is 1 where it is proven, else 0. */
static inline int NAME_index_decided(const double *x, int *decided)
{
    double scores[NAME_OUTPUTS], bounds[NAME_OUTPUTS];
    NAME_ROW(x);
    NAME_bounded(row, scores, bounds);
    *decided = NAME_settled(scores, bounds);
    return NAME_winner(scores);
}
