// The picture of a run: who is here, what moved which way, and what the publisher sent.

import { grid, LEFT, line, RIGHT, sheet, text, times } from '../browser/draw.mjs'

const PANEL_HEIGHT = 150
const GAP = 84

const STYLE = `
  polyline { fill: none; stroke-width: 2.5; stroke-linejoin: round }
  .here { stroke: #7c8797 } .complete { stroke: #1971c2 } .direct { stroke: #2f9e44 } .relay { stroke: #9c36b5 } .sent { stroke: #d9480f }
  text.here, text.complete, text.direct, text.relay { stroke: none; font-size: 12px }
  text.here { fill: #6b7280 } text.complete { fill: #1971c2 } text.direct { fill: #2f9e44 } text.relay { fill: #9c36b5 }
  @media (prefers-color-scheme: dark) {
    .here { stroke: #a09a90 } .complete { stroke: #74c0fc } .direct { stroke: #69db7c } .relay { stroke: #da77f2 } .sent { stroke: #ff8a3d }
    text.here { fill: #a09a90 } text.complete { fill: #74c0fc } text.direct { fill: #69db7c } text.relay { fill: #da77f2 }
  }
`

export function pictureOf({ samples, began, endedAt, bytes, about }) {
  const seconds = ((endedAt - began) / 1000) * 1.02
  const x = (time) => LEFT + ((RIGHT - LEFT) * time) / seconds
  const panels = [
    { title: 'Peers', lines: [['here', 'here', ({ here }) => here], ['complete', 'have all of it', ({ complete }) => complete]] },
    {
      title: 'Content that has moved, in copies of the page',
      lines: [['direct', 'directly', ({ directBytes }) => directBytes / bytes], ['relay', 'by relay', ({ relayedBytes }) => relayedBytes / bytes]],
    },
    { title: 'Copies that the publisher has sent', lines: [['sent', '', ({ copies }) => copies]] },
  ]
  const body = panels.flatMap(({ title, lines }, at) => {
    const top = 52 + at * (PANEL_HEIGHT + GAP)
    const most = Math.max(1, ...samples.flatMap((sample) => lines.map(([, , of]) => of(sample)))) * 1.1
    const y = (value) => top + PANEL_HEIGHT - (PANEL_HEIGHT * value) / most
    const step = [0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 500].find((each) => most / each <= 5) ?? 1000
    const grids = []
    for (let value = 0; value <= most; value += step) grids.push(grid(y(value), String(value)))
    const legend = lines.map(([kind, name], i) => text(kind, RIGHT - i * 120, top - 20, name, 'end'))
    const drawn = lines.map(([kind, , of]) => line(kind, samples.map((sample) => [x((sample.at - began) / 1000), y(of(sample))])))
    return [text('title', 24, top - 20, title), ...legend, ...grids, ...drawn, ...times(top + PANEL_HEIGHT, seconds, x, 'the page was published')]
  })
  const height = 52 + panels.length * (PANEL_HEIGHT + GAP) + 16
  body.push(text('note', 24, height - 14, about))
  return sheet(height, 'Peers that come and go, what moved directly and by relay, and what the publisher sent', STYLE, body)
}
