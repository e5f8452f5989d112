// Time series with one cursor and one zoom per path, buttons that hide controllers and that save a panel, redrawing for
// dark and print.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const UNITS = ["Mbit/s", "ms", "packets/s"];
  const DASHES = [[], [], [8, 4], [2, 4]];
  const hidden = new Set();
  const groups = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colourOf = (i) => colour("--c" + (i % 6));

  // One chart of a path: per controller lowest, highest and median, then the capacity. The page has a box for each kind
  // of which there is something to draw.
  function build(group, box) {
    const path = data.paths[group.path];
    const kind = Number(box.dataset.kind);
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
    const last = box === group.boxes[group.boxes.length - 1];
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
        const shown = group.boxes.map(({ dataset: { kind } }) => {
          const value = path.ccs[i][kind][0][at];
          return (value == null ? "–" : value) + " " + UNITS[kind];
        }).join(" · ");
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
    group.charts = group.boxes.map((box) => build(group, box));
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
    // A chart in a closed part of the page has no width yet, and many of them would take long to draw.
    const folded = element.closest("details");
    if (!folded || folded.open) return draw(group);
    folded.addEventListener("toggle", () => folded.open && draw(group));
  });
  const drawn = () => groups.filter((group) => group.charts.length > 0);

  document.querySelectorAll("[data-toggle]").forEach((button) => {
    button.addEventListener("click", () => {
      const cc = button.dataset.toggle;
      const off = !hidden.has(cc);
      off ? hidden.add(cc) : hidden.delete(cc);
      button.setAttribute("aria-pressed", String(!off));
      document.querySelectorAll("[data-cc]").forEach((e) => e.dataset.cc === cc && e.classList.toggle("off", off));
      drawn().forEach(draw);
    });
  });

  let resizing = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(resizing);
    resizing = requestAnimationFrame(() =>
      drawn().forEach((g) => g.charts.forEach((c, k) => c.setSize({ width: g.boxes[k].clientWidth, height: c.height }))));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn().forEach(draw));

  // Paper is white whatever the screen is, and narrower, and nobody can open a part of it. The parts of many paths stay
  // as the reader left them, because all of them would be a book.
  let opened = [];
  const print = (on) => {
    document.documentElement.classList.toggle("print", on);
    if (on) opened = [...document.querySelectorAll("details:not([open]):not(.path-body)")];
    opened.forEach((details) => { details.open = on; });
    drawn().forEach(draw);
    if (on) drawn().forEach((g) => g.charts.forEach((c) => c.setSize({ width: 680, height: c.height })));
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  // What a link within the page points to may lie in a closed part.
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    target.querySelectorAll(":scope > details").forEach((details) => { details.open = true; });
    for (let above = target.closest("details"); above; above = above.parentElement.closest("details")) above.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();

  // Saving a panel. It is drawn again as one SVG from what the browser has laid out: graphics with their computed styles,
  // texts where they stand, canvases as pictures. A PNG is that SVG, painted.
  const SVG = "http://www.w3.org/2000/svg";
  const STYLES = [
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
    "opacity", "font-size", "font-weight", "font-family", "text-anchor", "vector-effect", "transform",
  ];

  function shape(tag, attributes) {
    const element = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    return element;
  }

  function inlined(original) {
    const copy = original.cloneNode(true);
    const from = [original, ...original.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
      const style = getComputedStyle(from[i]);
      if (style.display === "none" && element !== copy) element.setAttribute("display", "none");
      STYLES.forEach((name) => {
        const value = style.getPropertyValue(name);
        if (value && value !== "none" || name === "fill" || name === "stroke") element.setAttribute(name, value);
      });
      ["class", "style", "data-cc", "aria-hidden"].forEach((name) => element.removeAttribute(name));
    });
    return copy;
  }

  // The words of a text node, one text for each of its lines.
  function lines(node, place) {
    const style = getComputedStyle(node.parentElement);
    const found = [];
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const box = range.getBoundingClientRect();
      const line = found[found.length - 1];
      if (line && Math.abs(line.top - box.top) < 2) line.words.push(word);
      else if (box.width > 0) found.push({ top: box.top, box, words: [word] });
    }
    return found.map(({ box, words }) => place(words.join(" "), box, style));
  }

  function redrawn(panel) {
    const frame = panel.getBoundingClientRect();
    const margin = 12;
    const [width, height] = [frame.width + 2 * margin, frame.height + 2 * margin];
    const root = shape("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
    root.append(shape("rect", { width, height, fill: colour("--paper") }));
    const at = (box) => ({ x: box.left - frame.left + margin, y: box.top - frame.top + margin, width: box.width, height: box.height });
    const place = (words, box, style) => {
      const text = shape("text", {
        x: at(box).x, y: at(box).y + 0.8 * box.height, fill: style.color, "font-size": style.fontSize,
        "font-weight": style.fontWeight, "font-family": style.fontFamily,
      });
      text.textContent = words;
      return text;
    };
    const background = (element) => {
      const style = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      if (style.backgroundColor !== "rgba(0, 0, 0, 0)" && box.width > 0) {
        root.append(shape("rect", { ...at(box), rx: Math.min(parseFloat(style.borderRadius) || 0, box.height / 2), fill: style.backgroundColor }));
      }
      // A verdict's sign is drawn by the style sheet, before the text.
      const before = getComputedStyle(element, "::before");
      if (before.content.startsWith('"')) {
        const left = box.left + (parseFloat(style.paddingLeft) || 0);
        root.append(place(before.content.slice(1, -1), { left, top: box.top, width: 0, height: box.height }, { ...textStyle(before), color: style.color }));
      }
    };
    const textStyle = ({ fontSize, fontWeight, fontFamily }) => ({ fontSize, fontWeight, fontFamily });
    const walk = (node) => {
      if (node.nodeType === Node.TEXT_NODE) return root.append(...lines(node, place));
      if (node.nodeType !== Node.ELEMENT_NODE || node.matches(".save, .readout, noscript, .u-over")) return;
      if (getComputedStyle(node).display === "none") return;
      const box = node.getBoundingClientRect();
      if (node.localName === "canvas") {
        root.append(shape("image", { ...at(box), href: node.toDataURL() }));
      } else if (node.localName === "svg") {
        const copy = inlined(node);
        Object.entries({ ...at(box), overflow: "visible" }).forEach(([name, value]) => copy.setAttribute(name, value));
        root.append(copy);
      } else {
        if (node !== panel) background(node);
        node.childNodes.forEach(walk);
      }
    };
    walk(panel);
    return root;
  }

  function download(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function save(panel, format) {
    const svg = redrawn(panel);
    const text = new XMLSerializer().serializeToString(svg);
    const name = "headway-" + panel.dataset.panel + "." + format;
    if (format === "svg") return download(new Blob([text], { type: "image/svg+xml" }), name);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
      const context = canvas.getContext("2d");
      context.scale(2, 2);
      context.drawImage(image, 0, 0);
      canvas.toBlob((blob) => download(blob, name), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  }

  document.querySelectorAll("[data-panel]").forEach((panel) => {
    const buttons = document.createElement("div");
    buttons.className = "save";
    ["svg", "png"].forEach((format) => {
      const button = text("button", format.toUpperCase());
      button.type = "button";
      button.title = "Save this panel as " + format.toUpperCase();
      button.addEventListener("click", () => save(panel, format));
      buttons.append(button);
    });
    panel.prepend(buttons);
  });
})();
