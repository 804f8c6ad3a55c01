// The picture of a round: how the page comes to each viewer, and what its publisher sends meanwhile.

import { grid, LEFT, line, n, RIGHT, sheet, text, times } from './draw.mjs'

const PANEL_HEIGHT = 190

const STYLE = `
  .viewer { fill: none; stroke: #1971c2; stroke-width: 1.5; stroke-opacity: .65; stroke-linejoin: round }
  .sent { fill: none; stroke: #d9480f; stroke-width: 2.5; stroke-linejoin: round }
  .bound { stroke: #2f9e44; stroke-width: 2; stroke-dasharray: 6 4 } .boundtext { fill: #2f9e44; font-size: 12px }
  .mark { stroke: #7c8797; stroke-width: 1.5; stroke-dasharray: 2 4 }
  @media (prefers-color-scheme: dark) {
    .viewer { stroke: #74c0fc } .sent { stroke: #ff8a3d }
    .bound { stroke: #69db7c } .boundtext { fill: #69db7c } .mark { stroke: #a09a90 }
  }
`

export function pictureOf({ round, bound, fileBytes, copiesMax, about }) {
  const at = (sample) => Math.max(0, (sample.at - round.began) / 1000)
  const seconds = Math.max(bound.seconds, ...round.visitors.map(({ doneAt }) => (doneAt - round.began) / 1000)) * 1.04
  const x = (time) => LEFT + ((RIGHT - LEFT) * time) / seconds
  const body = []

  const top = 52
  const shareY = (share) => top + PANEL_HEIGHT - PANEL_HEIGHT * share
  body.push(text('title', 24, 32, `What of the page each of ${round.visitors.length} viewers has`))
  for (const share of [0, 0.25, 0.5, 0.75, 1]) body.push(grid(shareY(share), `${share * 100} %`))
  for (const { samples, doneAt, cameAt } of round.visitors) {
    const until = samples.filter((sample) => sample.at >= cameAt && sample.at < doneAt).map((sample) => [x(at(sample)), shareY(sample.share)])
    body.push(line('viewer', [[x((cameAt - round.began) / 1000), shareY(0)], ...until, [x((doneAt - round.began) / 1000), shareY(1)]]))
  }
  const edge = x(bound.seconds)
  body.push(`<line class="bound" x1="${n(edge)}" x2="${n(edge)}" y1="${top - 6}" y2="${top + PANEL_HEIGHT}"/>`)
  const isLate = bound.seconds > seconds / 2
  body.push(text('boundtext', edge + (isLate ? -6 : 6), top + PANEL_HEIGHT - 8, `the bound: ${bound.seconds.toFixed(1)} s`, isLate ? 'end' : 'start'))
  body.push(...times(top + PANEL_HEIGHT, seconds, x, 'they opened the link'))

  const below = top + PANEL_HEIGHT + 76
  const points = round.publisher.samples.filter((sample) => sample.at >= round.began)
    .map((sample) => [at(sample), (sample.sent + sample.relayed) / fileBytes])
  const most = Math.ceil(Math.max(copiesMax, ...points.map(([, copies]) => copies)) + 0.2)
  const copiesY = (copies) => below + PANEL_HEIGHT - (PANEL_HEIGHT * copies) / most
  body.push(text('title', 24, below - 20, 'Copies that the publisher has sent'))
  const step = most > 6 ? 2 : 1
  for (let copies = 0; copies <= most; copies += step) body.push(grid(copiesY(copies), String(copies)))
  body.push(`<line class="mark" x1="${LEFT}" x2="${RIGHT}" y1="${n(copiesY(copiesMax))}" y2="${n(copiesY(copiesMax))}"/>`)
  body.push(text('note', RIGHT, copiesY(copiesMax) - 6, `at most ${copiesMax}`, 'end'))
  body.push(line('sent', points.map(([time, copies]) => [x(Math.min(time, seconds)), copiesY(copies)])))
  body.push(...times(below + PANEL_HEIGHT, seconds, x, 'they opened the link'))

  const height = below + PANEL_HEIGHT + 70
  body.push(text('note', 24, height - 18, about))
  return sheet(height, `How a page comes to ${round.visitors.length} viewers, and how many copies its publisher sends`, STYLE, body)
}
