static inline void NAME_bounded(const double *x, double *scores, double *bounds)
{
    const int cell = NAME_CELL(x);
    double damping, kept, square = NAME_form(cell, x, scores, &damping, &kept);
    double remainder = NAME_REMAINDER(square);
    int k;
    for (k = 0; k < NAME_OUTPUTS; k++)
        bounds[k] = NAME_rho[cell][k] * remainder + NAME_ROUNDING(cell, k, square)
            + NAME_RELATIVE * fabs(scores[k]);
}
