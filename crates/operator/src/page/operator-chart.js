// A line chart over time.

import { element, setAttribute, setText, svg } from './operator-dom.js'
import { summarize } from './operator-history.js'
import { clock, clockMinutes, date, format, formatTick, short } from './operator-text.js'

const LEFT = 58
const RIGHT = 10
const TOP = 18
const BOTTOM = 20
const LABEL_CHARACTER = 5.6
const MARKS_MAX = 60
const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS
const STEPS_MS = [1, 5, 15, 60, 360, 1_440, 4_320].map((minutes) => minutes * MINUTE_MS)
/** The least time that an axis shows, in steps. */
const ROWS_MIN = 60
/** The rows of the shortest span that can be marked: a click, also of an unsteady hand, is none. */
export const SPAN_ROWS_MIN = 10

/** The least that an axis shows, so that noise around zero looks small. */
const AXIS_MIN = { count: 1, rate: 1, bytes: 1024, byte_rate: 1024, seconds: 1e-4, cores: 0.1 }

/** Round numbers from 0 to at least `max`, about `count` of them. */
export function ticksOf(kind, max, count) {
  if (kind === 'share') return [0, 0.5, 1]
  const top = Math.max(max, AXIS_MIN[kind])
  const step = kind === 'count' && top <= count ? 1 : roundStep(kind, top / count)
  const steps = Math.ceil(top / step - 1e-9)
  return Array.from({ length: steps + 1 }, (_, index) => index * step)
}

/** The next round number at or above `target`: 1, 2 or 5 times a power of ten, or for bytes a power of two. */
function roundStep(kind, target) {
  if (kind === 'bytes' || kind === 'byte_rate') return 2 ** Math.ceil(Math.log2(target))
  const power = 10 ** Math.floor(Math.log10(target))
  const factor = [1, 2, 5].find((factor) => factor * power >= target * (1 - 1e-9)) ?? 10
  return power * factor
}

/** Times on the axis, at round minutes, hours or days of the local time: about four of them. */
function timeTicks(fromMs, toMs) {
  const stepMs = STEPS_MS.find((step) => toMs - fromMs <= 4.5 * step) ?? 7 * DAY_MS
  const offsetMs = new Date(toMs).getTimezoneOffset() * MINUTE_MS
  const ticks = []
  const first = Math.ceil((fromMs - offsetMs) / stepMs) * stepMs + offsetMs
  for (let ms = first; ms <= toMs; ms += stepMs) ticks.push(ms)
  return ticks
}

/** The time under the pointer or the keyboard's crosshair. All charts show it. */
export class Crosshair {
  /** @type {number | null} */
  timeMs = null
  #listeners = new Set()
  #announce
  #showSpan

  /** `showSpan` shows the time between two moments in all charts, or without them what the charts showed before. */
  constructor(announce, showSpan) {
    this.#announce = announce
    this.#showSpan = showSpan
  }

  onChange(listener) {
    this.#listeners.add(listener)
  }

  set(timeMs) {
    if (timeMs === this.timeMs) return
    this.timeMs = timeMs
    for (const listener of this.#listeners) listener()
  }

  announce(text) {
    this.#announce(text)
  }

  showSpan(fromMs = 0, untilMs = 0) {
    this.#showSpan(fromMs, untilMs)
  }
}

/**
 * `columns` has the names of the columns, `kind` is a key of the formats. The chart hides itself while the server has none
 * of the columns, or no value in them: one page serves a server of any features.
 */
export class Chart {
  element
  #title
  #kind
  #series
  #crosshair
  #plot
  #grid = svg('g', { class: 'grid' })
  #markLayer = svg('g', { class: 'marks' })
  #lines = svg('g', { class: 'lines' })
  #pointer = svg('g', { class: 'pointer' })
  #time = element('span', { className: 'at' })
  /** @type {any} The scales of the last drawing, and its rows; null before the first. */
  #drawn = null
  /** @type {Record<string, any> | null} */
  #input = null
  /** @type {number | null} Where the mouse began to mark a span. */
  #spanFromMs = null

  constructor({ title, kind, columns, isSmall = false }, crosshair) {
    this.#title = title
    this.#kind = kind
    this.#crosshair = crosshair
    this.#series = Object.entries(columns).map(([column, names], index) => {
      const [name, own] = [names].flat()
      const value = element('b')
      const swatch = svg(
        'svg',
        { class: `swatch series-${index + 1}`, width: 16, height: 8, 'aria-hidden': 'true' },
        svg('line', { x1: 0, y1: 4, x2: 16, y2: 4 }),
      )
      return { column, name, kind: own ?? kind, isShare: own !== undefined, value, item: element('li', {}, swatch, `${name} `, value) }
    })
    this.#plot = svg('svg', { class: 'plot', role: 'img', tabindex: 0 }, this.#grid, this.#markLayer, this.#lines, this.#pointer)
    const legend = element('ul', { className: 'legend' }, ...this.#series.map(({ item }) => item))
    const caption = element('figcaption', {}, element('h3', { textContent: title }), this.#time, legend)
    this.element = element('figure', { className: isSmall ? 'chart small-chart' : 'chart', hidden: true }, caption, this.#plot)
    this.#listen()
  }

  #listen() {
    const plot = this.#plot
    const point = ({ clientX }) => this.#pointAt(clientX - plot.getBoundingClientRect().left)
    plot.addEventListener('pointermove', point)
    plot.addEventListener('pointerdown', (event) => {
      point(event)
      this.#beginSpan(event)
    })
    plot.addEventListener('pointerup', () => this.#endSpan())
    plot.addEventListener('pointercancel', () => (this.#spanFromMs = null))
    plot.addEventListener('dblclick', () => this.#crosshair.showSpan())
    plot.addEventListener('pointerleave', () => this.#crosshair.set(null))
    plot.addEventListener('keydown', (event) => this.#key(event))
    plot.addEventListener('blur', () => this.#crosshair.set(null))
    this.#crosshair.onChange(() => this.#drawPointer())
    new ResizeObserver(() => this.#input && this.update(this.#input)).observe(plot)
  }

  /**
   * Draws a window of the history. `history` is a `HistoryWindow`, `toMs` the time at its right edge, `marks` events with
   * `time_ms` and `text`, and `rangeName` the words for the window.
   */
  update(input) {
    this.#input = input
    const { history, toMs, rangeName } = input
    // An axis begins when the record begins.
    const beginMs = Math.min(history.rows[0]?.[0] ?? -Infinity, toMs - ROWS_MIN * history.stepMs)
    const fromMs = Math.max(toMs - history.windowMs, beginMs)
    const rows = history.rows.filter(([ms]) => ms >= fromMs)
    const shown = this.#series.map((series) => {
      const index = history.indexOf(series.column)
      return { series, index, summary: index === undefined ? null : summarize(rows, index) }
    })
    const hasValue = ({ summary }) => summary !== null && summary.highest !== null
    this.element.hidden = !shown.some(hasValue)
    if (this.element.hidden) return
    for (const each of shown) each.series.item.hidden = !hasValue(each)
    const visible = shown.filter(hasValue)
    this.#draw({ ...input, fromMs, rows, visible })
    const isCurrent = history.lastMs > toMs - 5 * history.stepMs
    const parts = visible.map(({ series, summary: { now, lowest, highest } }) => {
      const written = (value) => format(series.kind, value)
      const current = isCurrent && now !== null ? `now ${written(now)}` : 'no current value'
      return `${series.name}: ${current}, lowest ${written(lowest)}, highest ${written(highest)}.`
    })
    setAttribute(this.#plot, 'aria-label', `${this.#title}, ${rangeName}. ${parts.join(' ')}`)
  }

  #draw({ history, fromMs, toMs, rows, visible, marks }) {
    const { width, height } = this.#plot.getBoundingClientRect()
    if (width === 0) return
    const max = Math.max(...visible.map(({ summary }) => summary.highest))
    const ticks = ticksOf(this.#kind, max, height < 120 ? 2 : 4)
    const right = Math.max(width - RIGHT, LEFT + 1)
    const x = (ms) => LEFT + ((ms - fromMs) / (toMs - fromMs)) * (right - LEFT)
    const bottom = height - BOTTOM
    const top = ticks[ticks.length - 1]
    const y = (value) => bottom - (Math.min(value, top) / top) * (bottom - TOP)
    for (const each of visible) {
      const all = each.series.isShare ? each.summary.highest || 1 : 1
      each.y = (value) => y(value / all)
    }
    this.#drawn = { x, rows, visible, fromMs, toMs, right, bottom, marks }

    const horizontal = ticks.flatMap((tick) => [
      svg('line', { x1: LEFT, x2: right, y1: y(tick), y2: y(tick) }),
      text(LEFT - 6, y(tick) + 3.5, formatTick(this.#kind, tick), 'end'),
    ])
    const vertical = timeTicks(fromMs, toMs).flatMap((ms) => [
      svg('line', { class: 'tick', x1: x(ms), x2: x(ms), y1: bottom, y2: bottom + 4 }),
      text(Math.min(Math.max(x(ms), LEFT + 8), right - 12), height - 4, toMs - fromMs > 2 * DAY_MS ? date(ms) : clockMinutes(ms), 'middle'),
    ])
    this.#grid.replaceChildren(...horizontal, ...vertical)
    this.#drawMarks()

    // One row may be late or missing. After two, a line would claim values that nobody measured.
    const gapMs = 2.5 * history.stepMs
    const lines = visible.map(({ series, index, y }) => {
      const number = this.#series.indexOf(series) + 1
      return svg('path', { class: `series-${number}`, d: pathOf(rows, index, x, y, gapMs) })
    })
    if (visible.length === 1)
      lines.unshift(svg('path', { class: 'area', d: areaOf(rows, visible[0].index, x, visible[0].y, gapMs, bottom) }))
    this.#lines.replaceChildren(...lines)
    this.#drawPointer()
  }

  /** A vertical line for each event, with as much of its text as there is room for. */
  #drawMarks() {
    const { x, fromMs, toMs, right, bottom, marks } = this.#drawn
    const inside = marks.filter(({ time_ms: ms }) => ms >= fromMs && ms <= toMs).slice(-MARKS_MAX)
    const parts = inside.flatMap(({ time_ms: ms, text: words }, index) => {
      const at = x(ms)
      const next = index + 1 < inside.length ? x(inside[index + 1].time_ms) : right
      const line = svg('line', { x1: at, x2: at, y1: 4, y2: bottom }, svg('title', {}, `${clock(ms, toMs)} ${short(words)}`))
      const room = Math.floor((next - at - 10) / LABEL_CHARACTER)
      return room < 5 ? [line] : [line, text(at + 4, 11, short(words, room - 1), 'start')]
    })
    this.#markLayer.replaceChildren(...parts)
  }

  /** The crosshair, and in the legend the values at its time or the newest ones. */
  #drawPointer() {
    if (!this.#drawn || this.element.hidden) return
    const { x, visible, bottom } = this.#drawn
    const row = this.#rowAt(this.#crosshair.timeMs)
    const isPointing = this.#crosshair.timeMs !== null && row !== null
    const values = isPointing ? row : this.#drawn.rows.at(-1)
    for (const { series, index } of visible) setText(series.value, format(series.kind, values?.[index] ?? NaN))
    setText(this.#time, isPointing ? this.#describeTime(row[0]) : '')
    if (!isPointing) return this.#pointer.replaceChildren()
    const at = x(row[0])
    const dots = visible
      .filter(({ index }) => Number.isFinite(row[index]))
      .map(({ series, index, y }) =>
        svg('circle', { class: `series-${this.#series.indexOf(series) + 1}`, cx: at, cy: y(row[index]), r: 3.5 }),
      )
    const from = Math.max(x(this.#spanFromMs ?? row[0]), LEFT)
    const span = svg('rect', { x: Math.min(from, at), width: Math.abs(at - from), y: TOP - 6, height: bottom - TOP + 6 })
    this.#pointer.replaceChildren(span, svg('line', { x1: at, x2: at, y1: TOP - 6, y2: bottom }), ...dots)
  }

  /** The time, and the event there when the crosshair is at one. */
  #describeTime(ms) {
    const { x, marks, toMs } = this.#drawn
    const mark = marks.findLast(({ time_ms: markMs }) => Math.abs(x(markMs) - x(ms)) < 5)
    return mark ? `${clock(ms, toMs)} · ${short(mark.text)}` : clock(ms, toMs)
  }

  /** The row nearest to a time. */
  #rowAt(timeMs) {
    const { rows, fromMs } = this.#drawn
    if (timeMs === null || rows.length === 0 || timeMs < fromMs) return null
    let [low, high] = [0, rows.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (rows[middle][0] < timeMs) low = middle + 1
      else high = middle
    }
    const before = rows[low - 1]
    return before && timeMs - before[0] < rows[low][0] - timeMs ? before : rows[low]
  }

  #pointAt(pixel) {
    if (!this.#drawn) return
    const { fromMs, toMs, right } = this.#drawn
    const share = Math.min(Math.max((pixel - LEFT) / (right - LEFT), 0), 1)
    const row = this.#rowAt(fromMs + share * (toMs - fromMs))
    this.#crosshair.set(row ? row[0] : null)
  }

  /** Dragging the mouse marks a span of time. A finger only reads the values. */
  #beginSpan({ pointerType, button, pointerId }) {
    if (pointerType !== 'mouse' || button !== 0) return
    this.#spanFromMs = this.#crosshair.timeMs
    this.#plot.setPointerCapture(pointerId)
  }

  #endSpan() {
    const [from, until] = [this.#spanFromMs, this.#crosshair.timeMs]
    this.#spanFromMs = null
    this.#drawPointer()
    if (from === null || until === null || Math.abs(until - from) < SPAN_ROWS_MIN * this.#input?.history.stepMs) return
    this.#crosshair.showSpan(Math.min(from, until), Math.max(from, until))
  }

  #key(event) {
    const rows = this.#drawn?.rows ?? []
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity }
    if (event.key === 'Escape') {
      this.#spanFromMs = null
      this.#crosshair.set(null)
      return this.#crosshair.showSpan()
    }
    if (!(event.key in steps) || rows.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    const last = rows.length - 1
    const row = this.#rowAt(this.#crosshair.timeMs)
    const from = row ? rows.indexOf(row) : last
    const next = rows[Math.min(Math.max(from + steps[event.key], 0), last)]
    this.#crosshair.set(next[0])
    const values = this.#drawn.visible.map(({ series, index }) => `${series.name} ${format(series.kind, next[index] ?? NaN)}`)
    this.#crosshair.announce(`${this.#describeTime(next[0])}: ${values.join(', ')}`)
  }
}

function text(x, y, words, anchor) {
  return svg('text', { x, y, 'text-anchor': anchor }, words)
}

/** Stretches of rows without a gap, each a list of points. */
function stretchesOf(rows, index, x, y, gapMs) {
  const stretches = []
  let previousMs = -Infinity
  for (const row of rows) {
    const value = row[index]
    if (!Number.isFinite(value)) {
      previousMs = -Infinity
      continue
    }
    if (row[0] - previousMs > gapMs) stretches.push([])
    stretches.at(-1).push(`${x(row[0]).toFixed(1)} ${y(value).toFixed(1)}`)
    previousMs = row[0]
  }
  return stretches
}

/** A single value between two gaps is a very short line. */
function pathOf(rows, index, x, y, gapMs) {
  const lines = stretchesOf(rows, index, x, y, gapMs).map((points) => `M${points.join('L')}${points.length === 1 ? 'm-1 0h2' : ''}`)
  return lines.join('')
}

function areaOf(rows, index, x, y, gapMs, bottom) {
  const areas = stretchesOf(rows, index, x, y, gapMs).map((points) => {
    const [first, last] = [points[0].split(' ')[0], points.at(-1).split(' ')[0]]
    return `M${first} ${bottom}L${points.join('L')}L${last} ${bottom}Z`
  })
  return areas.join('')
}
