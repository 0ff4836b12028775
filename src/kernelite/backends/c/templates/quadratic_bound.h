static inline void NAME_bounded(const double *x, double *scores, double *bounds)
{
    double damping, kept, square = NAME_form(x, scores, &damping, &kept);
    double remainder = NAME_REMAINDER(square);
    int k;
    for (k = 0; k < NAME_OUTPUTS; k++)
        bounds[k] = NAME_rho[k] * remainder + NAME_ROUNDING(k, square)
            + NAME_RELATIVE * fabs(scores[k]);
}
