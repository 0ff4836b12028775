/* The cell of a row: the nearest expansion point. */
static inline int NAME_cell(const REAL *x)
{
    REAL best = 0;
    int cell, i, nearest = 0;
    for (cell = 0; cell < NAME_CELLS; cell++) {
        REAL near = -NAME_half_square[cell];
        for (i = 0; i < NAME_WIDTH; i++)
            near += NAME_point[cell][i] * x[i];
        if (cell == 0 || near > best) {
            best = near;
            nearest = cell;
        }
    }
    return nearest;
}
