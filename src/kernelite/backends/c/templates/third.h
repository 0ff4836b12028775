/* The form of third order, f3 = exp(-gamma |u|^2) (c + v.u + u'Mu + T(y, y, y)) + b, with a bound on
   the error of each score: for rows that the first bound leaves open. y is u, or Q'u on a basis of
   few columns; T has its entries in the order of their three indices. */
static inline double NAME_remainder_4(double square)
{
    const double t = NAME_TWICE_GAMMA * square;
    double near, far;
    if (!(t < 1500.0))
        return 1.0 + 1e-12;
    near = t * t * 0.204124145233;
    far = 1.0 + 1e-12 - exp(-t) * (1.0 + t * (1.0 + t * (0.5 + t / 6.0)));
    far = sqrt(far > 1e-12 ? far : 1e-12);
    return near < far ? near : far;
}

static inline void NAME_third(const double *x, double *scores, double *bounds)
{
    double u[NAME_WIDTH], y[NAME_THIRD_RANK], square = 0.0, kept = 0.0;
    double damping, remainder, norm, inside, rest, reach;
    int i, j, k, l;
    for (i = 0; i < NAME_WIDTH; i++) {
        u[i] = x[i] - NAME_point[i];
        square += u[i] * u[i];
    }
    for (j = 0; j < NAME_THIRD_RANK; j++) {
        y[j] = NAME_THIRD_START(j);
        for (i = 0; i < NAME_THIRD_SUM; i++)
            y[j] += NAME_THIRD_TERM(i, j);
        kept += y[j] * y[j];
    }
    damping = NAME_DAMPING(square);
    remainder = NAME_remainder_4(square);
    norm = sqrt(square);
    inside = sqrt(kept);
    rest = sqrt((square > kept ? square - kept : 0.0) + NAME_HIDDEN * square);
    reach = damping > 0.0 ? (square + norm * inside + kept) * damping : 0.0;
    for (k = 0; k < NAME_OUTPUTS; k++) {
        const double *m = NAME_WHOLE(k), *t = NAME_cubic[k];
        double g = NAME_constant[k];
        for (i = 0; i < NAME_WIDTH; i++) {
            double inner = NAME_linear[k][i];
            for (j = i; j < NAME_WIDTH; j++)
                inner += *m++ * u[j];
            g += u[i] * inner;
        }
        for (i = 0; i < NAME_THIRD_RANK; i++) {
            double outer = 0.0;
            for (j = i; j < NAME_THIRD_RANK; j++) {
                double inner = 0.0;
                for (l = j; l < NAME_THIRD_RANK; l++)
                    inner += *t++ * y[l];
                outer += y[j] * inner;
            }
            g += y[i] * outer;
        }
        scores[k] = (damping > 0.0 ? g * damping : 0.0) + NAME_intercept[k];
        bounds[k] = NAME_rho_4[k] * remainder + NAME_rounding_3[k]
            + NAME_RELATIVE * fabs(scores[k])
            + (reach > 0.0 ? reach * (rest * NAME_tail[k] + norm * NAME_slack[k]) : 0.0);
    }
}
