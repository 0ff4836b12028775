// The live picture: drag the point, see label, value, bound, and which stage answers.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("live"), live = window.kerneliteLive;
  if (!place || !live) return;
  const canvas = place.querySelector("canvas"), told = place.querySelector("output");
  const pen = canvas.getContext("2d"), REACH = 3, CELLS = 120;
  const colours = { blue: [37, 99, 235], orange: [217, 119, 6] };
  const toPixel = ([x, y]) => [((x + REACH) / (2 * REACH)) * canvas.width, ((REACH - y) / (2 * REACH)) * canvas.height];
  const toRow = (px, py) => [(px / canvas.width) * 2 * REACH - REACH, REACH - (py / canvas.height) * 2 * REACH];

  // The background: each cell in its label's colour, strong where the form proves it.
  const field = document.createElement("canvas");
  field.width = field.height = CELLS;
  const image = field.getContext("2d").createImageData(CELLS, CELLS), rows = [];
  for (let i = 0; i < CELLS; i++)
    for (let j = 0; j < CELLS; j++)
      rows.push([((j + 0.5) / CELLS) * 2 * REACH - REACH, REACH - ((i + 0.5) / CELLS) * 2 * REACH]);
  const form = live.form.answer(rows), exact = live.exact.answer(rows);
  rows.forEach((_, i) => {
    const label = form.decided[i] ? form.label[i] : exact.label[i];
    image.data.set([...colours[label], form.decided[i] ? 110 : 40], 4 * i);
  });
  field.getContext("2d").putImageData(image, 0, 0);

  let row = [0.3, 0.2];
  function draw() {
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.imageSmoothingEnabled = true;
    pen.drawImage(field, 0, 0, canvas.width, canvas.height);
    live.shown.rows.forEach((one, i) => {
      pen.fillStyle = `rgb(${colours[live.shown.labels[i]]})`;
      pen.beginPath();
      pen.arc(...toPixel(one), 2.5, 0, 7);
      pen.fill();
    });
    pen.strokeStyle = "#111";
    pen.fillStyle = "#fff";
    pen.lineWidth = 3;
    pen.beginPath();
    pen.arc(...toPixel(row), 9, 0, 7);
    pen.fill();
    pen.stroke();
    const quick = live.form.answer([row]), sure = live.exact.answer([row]);
    const value = quick.scores[0][0], bound = quick.score_bound[0][0], proven = quick.decided[0];
    told.textContent =
      `row (${row.map((x) => x.toFixed(2)).join(", ")}): ${(proven ? quick : sure).label[0]}. ` +
      `The form says ${value.toFixed(3)}, off by at most ${bound < 100 ? bound.toFixed(3) : "much"}: ` +
      (proven
        ? "proven by the form alone."
        : `not proven, so all ${live.shown.vectors} support vectors are summed: ${sure.scores[0][0].toFixed(3)}.`);
  }
  function move(event) {
    const box = canvas.getBoundingClientRect();
    const at = (from, start, side, pixels) => (Math.min(Math.max(from - start, 0), side) / side) * pixels;
    row = toRow(at(event.clientX, box.left, box.width, canvas.width), at(event.clientY, box.top, box.height, canvas.height));
    draw();
  }
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); move(event); });
  canvas.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.05, 0], ArrowRight: [0.05, 0], ArrowUp: [0, 0.05], ArrowDown: [0, -0.05] }[event.key];
    if (!step) return;
    event.preventDefault();
    row = row.map((x, i) => Math.min(Math.max(x + step[i], -REACH), REACH));
    draw();
  });
  place.hidden = false;
  draw();
});
