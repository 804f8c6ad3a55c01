// What the pictures of pages are drawn with: lines, words and axes, for paper and for night.

export const WIDTH = 760
export const LEFT = 64
export const RIGHT = 736

/** Colours that all of them share; the viewer's setting decides. */
export const STYLE = `
  svg { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .note, .tick { fill: #6b7280; font-size: 12px }
  .back { fill: #fffdf9 } .grid { stroke: #e4e0d8 } .axis { stroke: #94a3b8 }
  @media (prefers-color-scheme: dark) {
    svg { fill: #e6e1d8 } .back { fill: #171412 } .note, .tick { fill: #a09a90 }
    .grid { stroke: #2c2823 } .axis { stroke: #5b6472 }
  }
`

/** The whole picture; `style` is its own, beside what all share. */
export function sheet(height, label, style, body) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${label}">
<style>${STYLE}${style}</style>
<rect class="back" width="${WIDTH}" height="${height}" rx="10"/>
${body.join('\n')}
</svg>
`
}

/** The axis of time, which ends at `seconds` and begins with `what`. */
export function times(y, seconds, x, what) {
  const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((each) => seconds / each <= 10) ?? 1200
  const marks = [`<line class="axis" x1="${LEFT}" x2="${RIGHT}" y1="${n(y)}" y2="${n(y)}"/>`]
  for (let time = 0; time <= seconds; time += step) marks.push(text('tick', x(time), y + 16, String(time), 'middle'))
  marks.push(text('note', (LEFT + RIGHT) / 2, y + 34, `seconds since ${what}`, 'middle'))
  return marks
}

export function grid(y, label) {
  return `<line class="grid" x1="${LEFT}" x2="${RIGHT}" y1="${n(y)}" y2="${n(y)}"/>${text('tick', LEFT - 8, y + 4, label, 'end')}`
}

export function line(kind, points) {
  return `<polyline class="${kind}" points="${points.map(([x, y]) => `${n(x)},${n(y)}`).join(' ')}"/>`
}

export function text(kind, x, y, words, anchor = 'start') {
  return `<text class="${kind}" x="${n(x)}" y="${n(y)}" text-anchor="${anchor}">${words}</text>`
}

export function n(value) {
  return value.toFixed(1)
}
