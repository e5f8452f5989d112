// Time series with one cursor and one zoom per path, buttons that hide controllers, redrawing for dark and print.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const KINDS = ["goodput", "delay", "retransmits"];
  const UNITS = ["Mbit/s", "ms", "packets/s"];
  const DASHES = [[], [], [8, 4], [2, 4]];
  const hidden = new Set();
  const groups = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colourOf = (i) => colour("--c" + (i % 6));

  // One chart of a path: per controller lowest, highest and median, then the capacity.
  function build(group, kind) {
    const path = data.paths[group.path];
    const box = group.boxes[kind];
    const rows = [path.t];
    const series = [{}];
    const bands = [];
    data.ccs.forEach((cc, i) => {
      const show = !hidden.has(cc);
      const [median, low, high] = path.ccs[i][kind];
      const at = rows.push(high, low, median) - 3;
      const edge = { show, stroke: "transparent", width: 0, points: { show: false } };
      series.push(edge, { ...edge }, {
        show, label: cc, stroke: colourOf(i), width: i === 0 ? 2.4 : 1.8, dash: DASHES[i % 4], points: { show: false },
      });
      bands.push({ series: [at, at + 1], fill: colourOf(i) + "26" });
    });
    if (kind === 0) {
      rows.push(path.capacity);
      series.push({
        stroke: colour("--quiet"), width: 1.2, dash: [2, 3], points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }),
      });
    }
    const axis = {
      stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 0.5 }, ticks: { show: false }, font: "11px system-ui, sans-serif",
    };
    const last = kind === KINDS.length - 1;
    const options = {
      width: box.clientWidth || 680,
      height: last ? 130 : 150,
      legend: { show: false },
      padding: [6, 8, last ? 0 : 4, 0],
      cursor: {
        sync: { key: "path" + group.path, setSeries: false },
        y: false,
        points: { size: 7 },
        drag: { x: true, y: false },
      },
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.06 : 1] } },
      axes: [
        { ...axis, size: last ? 30 : 4, values: (u, ticks) => ticks.map((t) => (last ? t + " s" : "")) },
        { ...axis, size: 48, space: 26 },
      ],
      series,
      bands,
      hooks: {
        setCursor: [(u) => readout(group, u.cursor.idx)],
        setScale: [(u, key) => key === "x" && zoom(group, u)],
      },
    };
    return new uPlot(options, rows, box);
  }

  function zoom(group, source) {
    if (group.zooming) return;
    group.zooming = true;
    const { min, max } = source.scales.x;
    group.charts.forEach((chart) => chart !== source && chart.setScale("x", { min, max }));
    group.zooming = false;
  }

  function unzoom(group) {
    const t = data.paths[group.path].t;
    group.charts[0].setScale("x", { min: t[0], max: t[t.length - 1] });
  }

  function readout(group, at) {
    const path = data.paths[group.path];
    const parts = [];
    if (at == null) {
      parts.push("Point at a chart, or focus one and use the arrow keys, to read its values.");
    } else {
      parts.push(text("b", path.t[at].toFixed(1) + " s"));
      data.ccs.forEach((cc, i) => {
        if (hidden.has(cc)) return;
        const values = KINDS.map((_, kind) => path.ccs[i][kind][0][at]);
        const shown = values.map((v, kind) => (v == null ? "–" : v) + " " + UNITS[kind]).join(" · ");
        const span = text("span", "");
        const name = text("b", cc + " ");
        name.style.color = "var(--c" + (i % 6) + ")";
        span.append(name, shown);
        parts.push(span);
      });
    }
    group.readout.replaceChildren(...parts);
  }

  function text(tag, content) {
    const element = document.createElement(tag);
    element.textContent = content;
    return element;
  }

  function draw(group) {
    group.charts.forEach((chart) => chart.destroy());
    group.charts = KINDS.map((_, kind) => build(group, kind));
    readout(group, null);
  }

  function keys(group, event) {
    const length = data.paths[group.path].t.length;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -length, End: length }[event.key];
    if (event.key === "Escape") unzoom(group);
    if (!step) return;
    event.preventDefault();
    const chart = group.charts[0];
    const from = chart.cursor.idx == null ? 0 : chart.cursor.idx;
    const at = Math.min(length - 1, Math.max(0, from + step));
    const left = chart.valToPos(data.paths[group.path].t[at], "x");
    group.charts.forEach((c) => c.setCursor({ left, top: 10 }));
  }

  document.querySelectorAll(".time").forEach((element) => {
    const boxes = [...element.querySelectorAll(".chart")];
    const group = { path: Number(element.dataset.path), boxes, readout: element.querySelector(".readout"), charts: [], zooming: false };
    boxes.forEach((box) => {
      box.addEventListener("keydown", (event) => keys(group, event));
      box.addEventListener("dblclick", () => unzoom(group));
    });
    groups.push(group);
    draw(group);
  });

  document.querySelectorAll("[data-toggle]").forEach((button) => {
    button.addEventListener("click", () => {
      const cc = button.dataset.toggle;
      const off = !hidden.has(cc);
      off ? hidden.add(cc) : hidden.delete(cc);
      button.setAttribute("aria-pressed", String(!off));
      document.querySelectorAll("[data-cc]").forEach((e) => e.dataset.cc === cc && e.classList.toggle("off", off));
      groups.forEach(draw);
    });
  });

  let resizing = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(resizing);
    resizing = requestAnimationFrame(() =>
      groups.forEach((g) => g.charts.forEach((c, k) => c.setSize({ width: g.boxes[k].clientWidth, height: c.height }))));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => groups.forEach(draw));

  // Paper is white whatever the screen is, and narrower.
  const print = (on) => {
    document.documentElement.classList.toggle("print", on);
    groups.forEach(draw);
    if (on) groups.forEach((g) => g.charts.forEach((c) => c.setSize({ width: 680, height: c.height })));
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
})();
