// Charts as data; `watchfire-bench draw` turns them into SVG.

/** An axis from 0; without `max` it ends above the largest value. */
export function axis(label, { max = null, step = null, format = 'Number' } = {}) {
  return { label, max, step, is_log: false, format }
}

/** Colours: Orange, Blue, Green, Grey, Purple. A line without a name is not in the legend. */
export function line(name, colour, points, opacity = 1) {
  return { name, colour, side: 'Left', opacity, points }
}

/** A line across the panel at a value of the horizontal or the vertical axis. */
export function marker(name, colour, at, isOnX) {
  return { name, colour, is_on_x: isOnX, at }
}

export function panel(title, x, left, lines, markers = []) {
  return { Lines: { title, x, left, right: null, lines, markers } }
}
