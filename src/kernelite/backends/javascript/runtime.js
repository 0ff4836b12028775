// The operations of a graph, on tensors {data, shape}: all numbers are doubles, truth values 1 and 0.
const tensor = (data, shape) => ({ data, shape });
const size = (shape) => shape.reduce((n, side) => n * side, 1);

// exp(x) within 2 units of the last place (Math.exp states no accuracy): x = k ln 2 + r, |r| <= 0.35,
// Taylor's polynomial of degree 13, and a product with 2^k in two factors, so that subnormals come out.
const LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
const POWERS = Float64Array.from({ length: 1200 }, (_, i) => 2 ** (i - 600));
function exp(x) {
  if (!(x > -746)) return x !== x ? x : 0;
  if (x > 709.782712893384) return Infinity;
  const k = Math.round(x * 1.4426950408889634);
  const r = x - k * LN2_HIGH - k * LN2_LOW;
  let p = 1 / 6227020800;
  for (let n = 12; n > 0; n--) p = p * r + INVERSE_FACTORIAL[n];
  const half = Math.trunc(k / 2);
  return (p * r + 1) * POWERS[half + 600] * POWERS[k - half + 600];
}
const INVERSE_FACTORIAL = [1];
for (let n = 1; n < 13; n++) INVERSE_FACTORIAL[n] = INVERSE_FACTORIAL[n - 1] / n;

// log(x) within 4 units: x = 2^k m, sqrt(1/2) <= m < sqrt(2), and log m = 2 atanh((m - 1) / (m + 1)).
const BITS = new DataView(new ArrayBuffer(8));
function log(x) {
  if (!(x > 0) || x === Infinity) return x === 0 ? -Infinity : x === Infinity ? x : NaN;
  let k = 0;
  if (x < 2.2250738585072014e-308) { x *= 2 ** 54; k = -54; }
  BITS.setFloat64(0, x);
  const high = BITS.getUint32(0);
  k += (high >>> 20) - 1023;
  BITS.setUint32(0, (high & 0xfffff) | 0x3ff00000);
  let m = BITS.getFloat64(0);
  if (m >= Math.SQRT2) { m /= 2; k++; }
  const f = (m - 1) / (m + 1), s = f * f;
  let p = 0;
  for (let n = 23; n > 1; n -= 2) p = (p + 1 / n) * s;
  return k * LN2_HIGH + (2 * (f + f * p) + k * LN2_LOW);
}

function shapeOfBoth(a, b) {
  const n = Math.max(a.length, b.length), out = new Array(n);
  for (let i = 1; i <= n; i++) {
    const s = a[a.length - i] ?? 1, t = b[b.length - i] ?? 1;
    out[n - i] = s === 1 ? t : s;
  }
  return out;
}

// Where the entries of a tensor stand, stretched to another shape.
function strides(shape, wide) {
  const out = new Array(wide.length).fill(0);
  for (let i = 1, step = 1; i <= shape.length; i++) {
    const side = shape[shape.length - i];
    if (side !== 1) out[wide.length - i] = step;
    step *= side;
  }
  return out;
}

function combine(f, ...inputs) {
  const shape = inputs.map((t) => t.shape).reduce(shapeOfBoth), n = size(shape);
  const out = inputs.some((t) => typeof t.data[0] === "string") ? new Array(n) : new Float64Array(n);
  if (inputs.every((t) => size(t.shape) === n || size(t.shape) === 1)) {
    const [a, b, c] = inputs, [i1, j1, k1] = inputs.map((t) => (size(t.shape) === n ? 1 : 0));
    for (let i = 0; i < n; i++) out[i] = f(a.data[i * i1], b.data[i * j1], c && c.data[i * k1]);
    return tensor(out, shape);
  }
  const steps = inputs.map((t) => strides(t.shape, shape)), at = inputs.map(() => 0);
  const count = new Array(shape.length).fill(0);
  for (let i = 0; i < n; i++) {
    out[i] = f(...inputs.map((t, j) => t.data[at[j]]));
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      count[axis]++;
      for (let j = 0; j < at.length; j++) at[j] += steps[j][axis];
      if (count[axis] < shape[axis]) break;
      for (let j = 0; j < at.length; j++) at[j] -= steps[j][axis] * shape[axis];
      count[axis] = 0;
    }
  }
  return tensor(out, shape);
}

const each = (f) => (a) => tensor(Float64Array.from(a.data, f), a.shape);
const two = (f) => (a, b) => combine(f, a, b);

// An axis in the middle of a shape: [what is before, its length, what is behind].
function around(shape, axis) {
  return [size(shape.slice(0, axis)), shape[axis], size(shape.slice(axis + 1))];
}

function reduce(start, f) {
  return (a, axes, { keepdims = 1 } = {}) => {
    if (axes.data === undefined) return tensor([a.data.reduce(f, start)], []); // of all entries
    const axis = axes.data[0], [before, n, behind] = around(a.shape, axis);
    const out = new Float64Array(before * behind).fill(start);
    for (let i = 0; i < before; i++)
      for (let j = 0; j < n; j++)
        for (let k = 0; k < behind; k++) {
          const at = i * behind + k;
          out[at] = f(out[at], a.data[(i * n + j) * behind + k]);
        }
    const shape = a.shape.slice();
    shape.splice(axis, 1, ...(keepdims ? [1] : []));
    return tensor(out, shape);
  };
}

function product(a, b, c) {
  const [m, d] = a.shape, n = b.shape[1] ?? 1, out = new Float64Array(m * n);
  for (let i = 0; i < m; i++)
    for (let l = 0; l < d; l++) {
      const x = a.data[i * d + l];
      if (x !== 0) for (let j = 0; j < n; j++) out[i * n + j] += x * b.data[l * n + j];
    }
  const found = tensor(out, b.shape.length > 1 ? [m, n] : [m]);
  return c ? ops.Add(found, c) : found;
}

const larger = (a, b) => (a !== a || b !== b ? NaN : a > b ? a : b);
const smaller = (a, b) => (a !== a || b !== b ? NaN : a < b ? a : b);

const ops = {
  Identity: (a) => a,
  Cast: (a, { whole = false } = {}) => (whole ? each(Math.trunc)(a) : a),
  Abs: each(Math.abs), Exp: each(exp), Log: each(log), Sqrt: each(Math.sqrt), Sign: each(Math.sign),
  Neg: each((x) => -x), Not: each((x) => (x ? 0 : 1)), Floor: each(Math.floor), Sin: each(Math.sin),
  Tanh: each(Math.tanh), Atan: each(Math.atan),
  IsNaN: each((x) => (x !== x ? 1 : 0)), IsInf: each((x) => (Math.abs(x) === Infinity ? 1 : 0)),
  Add: two((x, y) => x + y), Sub: two((x, y) => x - y), Mul: two((x, y) => x * y),
  Div: two((x, y) => x / y), Pow: two((x, y) => x ** y), Max: two(larger), Min: two(smaller),
  Less: two((x, y) => (x < y ? 1 : 0)), LessOrEqual: two((x, y) => (x <= y ? 1 : 0)),
  Greater: two((x, y) => (x > y ? 1 : 0)), GreaterOrEqual: two((x, y) => (x >= y ? 1 : 0)),
  Equal: two((x, y) => (x === y ? 1 : 0)), And: two((x, y) => x * y), Or: two((x, y) => (x || y ? 1 : 0)),
  Where: (c, a, b) => combine((w, x, y) => (w ? x : y), c, a, b),
  Clip: (a, low, high) => ops.Min(ops.Max(a, low), high),
  ReduceSum: reduce(0, (s, x) => s + x), ReduceSumSquare: reduce(0, (s, x) => s + x * x),
  ReduceMax: reduce(-Infinity, larger), ReduceMin: reduce(Infinity, smaller),
  Gemm: product, MatMul: product,
  ArgMax(a, { axis }) {
    const [before, n, behind] = around(a.shape, axis), out = new Float64Array(before * behind);
    for (let i = 0; i < before; i++)
      for (let k = 0; k < behind; k++) {
        let best = 0;
        for (let j = 1; j < n; j++)
          if (a.data[(i * n + j) * behind + k] > a.data[(i * n + best) * behind + k]) best = j;
        out[i * behind + k] = best;
      }
    const shape = a.shape.slice();
    shape.splice(axis, 1);
    return tensor(out, shape);
  },
  Concat(...given) {
    const { axis } = given.pop(), shape = given[0].shape.slice();
    shape[axis] = given.reduce((n, t) => n + t.shape[axis], 0);
    const [before, , behind] = around(shape, axis), out = new Float64Array(size(shape));
    for (let i = 0, at = 0; i < before; i++)
      for (const t of given) {
        const n = t.shape[axis] * behind;
        out.set(t.data.subarray(i * n, (i + 1) * n), at);
        at += n;
      }
    return tensor(out, shape);
  },
  Gather(a, index, { axis }) {
    const [before, n, behind] = around(a.shape, axis), count = index.data.length;
    const shape = [...a.shape.slice(0, axis), ...index.shape, ...a.shape.slice(axis + 1)];
    const out = Array.isArray(a.data) ? new Array(size(shape)) : new Float64Array(size(shape));
    for (const place of index.data) if (place >= n) throw new RangeError("a category is not known to this model");
    for (let i = 0, at = 0; i < before; i++)
      for (let j = 0; j < count; j++)
        for (let k = 0; k < behind; k++) out[at++] = a.data[(i * n + index.data[j]) * behind + k];
    return tensor(out, shape);
  },
  GatherElements(a, index) {
    const [m, n] = index.shape, width = a.shape[1], out = new Float64Array(m * n);
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) out[i * n + j] = a.data[i * width + index.data[i * n + j]];
    return tensor(out, index.shape);
  },
  Shape(a, { start = 0, end = a.shape.length } = {}) {
    const part = a.shape.slice(start, end);
    return tensor(Float64Array.from(part), [part.length]);
  },
  ConstantOfShape(shape, { value }) {
    const sides = Array.from(shape.data);
    return tensor(new Float64Array(size(sides)).fill(value), sides);
  },
  Reshape(a, sizes) {
    const shape = Array.from(sizes.data, (side, i) => (side === 0 ? a.shape[i] : side));
    const at = shape.indexOf(-1);
    if (at >= 0) {
      shape[at] = 1;
      const rest = size(shape);
      shape[at] = rest ? size(a.shape) / rest : 0;
    }
    return tensor(a.data, shape);
  },
  Slice(a, starts, ends, axes, steps) {
    const axis = axes ? axes.data[0] : 0, step = steps ? steps.data[0] : 1;
    const n = a.shape[axis], clamp = (x, low, high) => Math.min(Math.max(x < 0 ? x + n : x, low), high);
    const from = step > 0 ? clamp(starts.data[0], 0, n) : clamp(starts.data[0], 0, n - 1);
    const to = step > 0 ? clamp(ends.data[0], 0, n) : ends.data[0] < -n ? -1 : clamp(ends.data[0], -1, n);
    const places = [];
    for (let i = from; step > 0 ? i < to : i > to; i += step) places.push(i);
    return ops.Gather(a, tensor(Float64Array.from(places), [places.length]), { axis });
  },
  Transpose(a) {
    const [m, n] = a.shape, out = new Float64Array(m * n);
    for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) out[j * m + i] = a.data[i * n + j];
    return tensor(out, [n, m]);
  },
  NonZero(a) {
    const found = [];
    for (let i = 0; i < a.data.length; i++) if (a.data[i]) found.push(i);
    return tensor(Float64Array.from(found), [1, found.length]);
  },
  ScatterND(a, index, rows) {
    const out = a.data.slice(), width = size(a.shape.slice(1));
    for (let i = 0; i < index.data.length; i++)
      out.set(rows.data.subarray(i * width, (i + 1) * width), index.data[i] * width);
    return tensor(out, a.shape);
  },
  LabelEncoder(a, { keys, values, other }) {
    const table = new Map(keys.map((key, i) => [key, values[i]]));
    return tensor(Float64Array.from(a.data, (text) => table.get(text) ?? other), a.shape);
  },
  Loop(most, going, state, { body }) {
    for (let turn = 0; turn < most.data[0] && going.data[0]; turn++)
      [going, state] = body(tensor([turn], []), going, state);
    return state;
  },
  Scan(total, a, b, { body }) {
    const [m, d] = a.shape, n = b.shape[0];
    for (let j = 0; j < d; j++) {
      const column = (t, rows) => tensor(Float64Array.from({ length: rows }, (_, i) => t.data[i * d + j]), [rows]);
      [total] = body(total, column(a, m), column(b, n));
    }
    return total;
  },
};

function decoded(text, shape) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer), out = new Float64Array(bytes.length / 8);
  for (let i = 0; i < out.length; i++) out[i] = view.getFloat64(8 * i, true);
  return tensor(out, shape);
}

// A number of a row, as it is; what is missing only where the model fills it in.
function number(x, i, j) {
  if (about.missing && (x === null || x !== x)) return NaN;
  if (!Number.isFinite(x)) throw new RangeError(`row ${i}, number ${j}: ${x} is no finite number`);
  return x;
}

// Rows from `start` to `stop` as tensors: X, or each column by itself where texts are among them.
function given(rows, start, stop) {
  const d = about.features, m = stop - start, flat = ArrayBuffer.isView(rows);
  if (about.columns.length) {
    return about.columns.map(({ place, name, text }) => {
      const data = text ? new Array(m) : new Float64Array(m);
      for (let i = start; i < stop; i++) {
        const row = rows[i], x = Array.isArray(row) ? row[place] : row[name];
        if (text && typeof x !== "string") throw new TypeError(`row ${i}, ${name}: ${x} is no text`);
        data[i - start] = text ? x : number(x, i, name);
      }
      return tensor(data, [m, 1]);
    });
  }
  const data = new Float64Array(m * d);
  for (let i = start; i < stop; i++) {
    const row = flat ? rows.subarray(i * d, (i + 1) * d) : rows[i];
    if (row.length !== d) throw new RangeError(`row ${i} has ${row.length} numbers, but this model takes ${d}`);
    for (let j = 0; j < d; j++) data[(i - start) * d + j] = number(row[j], i, j);
  }
  return [tensor(data, [m, d])];
}

const BLOCK = 256; // rows that are answered together
const alone = ["label", "variable", "error_bound", "std"]; // numbers, not arrays of one number
function answers(rows, run, names, truths) {
  const flat = ArrayBuffer.isView(rows), texts = about.columns.length > 0;
  if (!(flat && !texts) && !Array.isArray(rows))
    throw new TypeError(`rows must be an array of rows${texts ? "" : ", or a typed array"}`);
  if (!flat && !texts && rows.length && !(Array.isArray(rows[0]) || ArrayBuffer.isView(rows[0]))) rows = [rows];
  const m = flat ? rows.length / about.features : rows.length;
  const out = Object.fromEntries(names.map((name) => [name, []]));
  if (!Number.isInteger(m)) throw new RangeError(`rows must have ${about.features} numbers each`);
  for (let start = 0; start < m; start += BLOCK) {
    const stop = Math.min(start + BLOCK, m), found = run(...given(rows, start, stop));
    for (const name of names) {
      const { data: values, shape } = found[name], width = size(shape.slice(1));
      for (let i = 0; i < stop - start; i++) {
        const own = Array.from(values.slice(i * width, (i + 1) * width), (x) => (truths.includes(name) ? x !== 0 : x));
        out[name].push(shape.length > 1 && !(alone.includes(name) && width === 1) ? own : own[0]);
      }
    }
  }
  return out;
}
