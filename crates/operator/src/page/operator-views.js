// The views that show the state and the history. Each has an `element` and `update(model)`.

import { showFailure } from './operator-api.js'
import { Chart } from './operator-chart.js'
import { CLUSTER_CHARTS, HOME_CHARTS, LIVE_CHARTS, PAGE_CHARTS, RUNTIME_CHARTS } from './operator-chart-list.js'
import { Actions } from './operator-connection.js'
import {
  Facts,
  KeyedChildren,
  Meter,
  Table,
  button,
  element,
  figure,
  numbers,
  section,
  setAttribute,
  setText,
  view,
} from './operator-dom.js'
import { clock, counted, date, duration, format, visible } from './operator-text.js'
import { Tools } from './operator-tools.js'

const RANGE_NAMES = { '15m': 'last 15 minutes', '24h': 'last 24 hours', '31d': 'last 31 days' }

/** A grid of charts of one range of the history. */
class ChartGrid {
  element
  #charts
  #drawn = ''
  #waiting = element('p', { className: 'small', textContent: 'The server has no values for these charts yet.' })

  constructor(definitions, crosshair, { isSmall = false } = {}) {
    this.#charts = definitions.map((definition) => new Chart({ ...definition, isSmall }, crosshair))
    const grid = element('div', { className: isSmall ? 'charts small-charts' : 'charts' }, ...this.#charts.map((chart) => chart.element))
    this.element = element('div', {}, grid, this.#waiting)
  }

  /** Draws a range that ends now, or the time around a moment. */
  update({ histories, events, nowMs }, range, /** @type {any} */ moment = null) {
    const history = moment?.history ?? histories[range]
    const toMs = moment?.toMs ?? Math.max(history.lastMs, nowMs)
    const marks = moment?.events ?? events
    // Nothing moves on the charts within a step, so there is nothing to draw.
    const drawn = [moment?.key ?? range, history.lastMs, Math.floor(toMs / history.stepMs / 2), marks.length].join()
    if (drawn === this.#drawn) return
    this.#drawn = drawn
    const rangeName = moment?.name ?? RANGE_NAMES[range]
    for (const chart of this.#charts) chart.update({ history, toMs, marks, rangeName })
    this.#waiting.hidden = this.#charts.some((chart) => !chart.element.hidden)
  }
}

/** The view Live: charts, and their rows as a file. */
export class LiveView {
  element
  #grid
  #history

  constructor(crosshair) {
    this.#grid = new ChartGrid(LIVE_CHARTS, crosshair)
    const save = button('Save the rows as CSV', () => this.#save())
    this.element = view('Live', this.#grid.element, element('p', {}, save))
  }

  #save() {
    const href = URL.createObjectURL(new Blob([this.#history.csv()], { type: 'text/csv' }))
    const day = new Date(this.#history.lastMs).toISOString().slice(0, 10)
    element('a', { href, download: `watchfire-${day}.csv` }).click()
    // The browser reads it after the click.
    setTimeout(() => URL.revokeObjectURL(href), 60_000)
  }

  update(model) {
    this.#history = model.moment?.history ?? model.histories[model.options.range]
    this.#grid.update(model, model.options.range, model.moment)
  }
}

/** Tables whose columns the server names. */
class Tables {
  element = element('div', { className: 'view' })
  #tables = new KeyedChildren(this.element, {
    // After an upgrade, a table may have other columns.
    keyOf: ({ title, columns }) => JSON.stringify([title, columns]),
    create: (table) => new NamedTable(table),
    update: (table, { rows }) => table.update(rows),
  })

  update(tables) {
    this.#tables.update(tables ?? [])
  }
}

/** The tables of features, and the charts of pages. */
export class PagesView {
  element
  #tables = new Tables()
  #grid
  #list

  constructor(app, crosshair) {
    this.#grid = new ChartGrid(PAGE_CHARTS, crosshair)
    const onclick = () => app.choose({ tab: 'topics', order: 'subscribers', prefix: 'page:' })
    this.#list = element('div', { className: 'bar' }, element('button', { type: 'button', onclick }, 'List the open pages'))
    this.element = view('Pages and blocks', this.#list, this.#tables.element, this.#grid.element)
  }

  update(model) {
    this.#list.hidden = !Number.isFinite(model.state.latest?.pages_open)
    this.#tables.update(model.state.tables)
    this.#grid.update(model, model.options.range, model.moment)
  }
}

class NamedTable {
  element
  #table

  constructor({ title, columns }) {
    this.#table = new Table({ caption: visible(title), keyOf: ([name]) => name, columns: columns.map(columnOf) })
    this.element = section(visible(title), this.#table.element)
  }

  update(rows) {
    this.#table.update(rows)
  }
}

function columnOf({ title, unit }, index) {
  const label = visible(title)
  const amount = (row) => amountOf(row[index], unit)
  if (unit !== 'text') return numbers(label, amount, (row) => row[index])
  const isFirst = index === 0
  return { label, isHeader: isFirst, isLong: isFirst, text: (row) => visible(row[index] ?? '–') }
}

/** Troubles, limits, and the most important charts. */
export class HomeView {
  element
  #nowMs = 0
  #calm = element('h2')
  #calmNote = element('p', { className: 'small' })
  #troubles
  #troubleList = element('ul', { className: 'troubles' })
  #calmBox
  #limits
  #limitBox
  #charts

  constructor(crosshair) {
    this.#calmBox = element('div', { className: 'calm' }, this.#calm, this.#calmNote)
    this.#troubles = new KeyedChildren(this.#troubleList, {
      keyOf: ({ key }) => key,
      create: () => new TroubleCard(),
      update: (card, trouble) => card.update(trouble, this.#nowMs),
    })
    const limitList = element('ul', { className: 'limits' })
    this.#limits = new KeyedChildren(limitList, {
      keyOf: ({ name }) => name,
      create: (limit) => new LimitBar(limit),
      update: (bar, limit) => bar.show(limit),
    })
    this.#limitBox = section('Limits', limitList)
    this.#charts = new ChartGrid(HOME_CHARTS, crosshair, { isSmall: true })
    const recent = section('Last 15 minutes', this.#charts.element)
    this.element = element('div', { className: 'view home' }, this.#calmBox, this.#troubleList, this.#limitBox, recent)
  }

  update(model) {
    const { state, isCurrent, nowMs } = model
    this.#nowMs = nowMs
    const troubles = keyed(state.troubles ?? [])
    this.#troubles.update(troubles)
    this.#troubleList.hidden = troubles.length === 0
    setText(this.#calm, calmText(troubles.length, isCurrent))
    setAttribute(this.#calmBox, 'data-level', troubles.length > 0 ? 'trouble' : isCurrent ? 'calm' : 'unknown')
    const clients = state.processes?.reduce((sum, process) => sum + (process.clients ?? 0), 0) ?? NaN
    const processes = counted(state.processes?.length ?? 0, 'process', 'processes')
    setText(this.#calmNote, `${counted(clients, 'client')} · ${processes} · checked at ${clock(nowMs)}`)
    // In the order of the server: a bar that moved with its share would not be found again.
    const limits = state.limits ?? []
    this.#limits.update(limits)
    this.#limitBox.hidden = limits.length === 0
    this.#charts.update(model, '15m')
  }
}

function calmText(troubles, isCurrent) {
  if (troubles > 0) return isCurrent ? counted(troubles, 'trouble') : `${counted(troubles, 'trouble')} at the last answer`
  return isCurrent ? 'No trouble' : 'No trouble at the last answer'
}

/** Gives each trouble a key. Two of one kind may have begun in the same millisecond. */
function keyed(troubles) {
  const seen = new Map()
  return troubles.map((trouble) => {
    const key = `${trouble.kind} ${trouble.since_ms}`
    const before = seen.get(key) ?? 0
    seen.set(key, before + 1)
    return { ...trouble, key: `${key} ${before}` }
  })
}

class TroubleCard {
  element
  #summary = element('h3')
  #since = element('p', { className: 'small' })
  #fix = element('p')
  #link = element('a', { target: '_blank', rel: 'noopener noreferrer', textContent: 'How to fix this' })

  constructor() {
    this.element = element('li', {}, this.#summary, this.#since, this.#fix, element('p', {}, this.#link))
  }

  update({ kind, since_ms, summary, fix, page }, nowMs) {
    setText(this.#summary, visible(summary ?? kind))
    setText(this.#since, `Since ${clock(since_ms, nowMs)}, for ${duration((nowMs - since_ms) / 1000)}`)
    setText(this.#fix, visible(fix ?? ''))
    const isLink = /^https?:\/\//.test(page ?? '')
    this.#link.hidden = !isLink
    if (isLink) setAttribute(this.#link, 'href', page)
  }
}

/** The part of a limit that is in use; 0 when there is no limit. */
function shareOf({ used, max }) {
  return max > 0 && Number.isFinite(used) ? used / max : 0
}

/** A share, as a bar and in words. */
class ShareBar {
  element
  #meter
  #percent = element('b')

  constructor(label, ...below) {
    this.#meter = new Meter(label)
    const head = element('p', { className: 'limit-head' }, element('span', { textContent: label }), this.#percent)
    this.element = element('li', {}, head, this.#meter.element, ...below)
  }

  /** `said` is what a screen reader says. */
  update(share, percent, said = percent) {
    setText(this.#percent, percent)
    this.#meter.update(share || 0, said)
  }
}

/** One limit. */
class LimitBar extends ShareBar {
  #amount
  #setting

  constructor({ name }) {
    const [amount, setting] = [element('span'), element('code')]
    super(nameOf(name), element('p', { className: 'small' }, amount, ' ', setting))
    this.#amount = amount
    this.#setting = setting
  }

  show({ used, max, unit, setting }) {
    const share = shareOf({ used, max })
    const percent = max > 0 ? `${Math.round(100 * share)} %` : ''
    const amount = useOf({ used, max, unit })
    setText(this.#amount, amount)
    setText(this.#setting, setting ?? '')
    this.update(share, percent, percent ? `${percent}, ${amount}` : amount)
  }
}

/** Such as "12 of 20,000". */
function useOf({ used, max, unit = undefined }) {
  return max > 0 ? `${amountOf(used, unit)} of ${amountOf(max, unit)}` : `${amountOf(used, unit)}, no limit`
}

/** "process_lost" as words: "Process lost". */
function nameOf(name) {
  const words = visible(name).replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const UNIT_KINDS = { '': 'count', bytes: 'bytes', seconds: 'seconds', share: 'share' }

function amountOf(value, unit = '') {
  const kind = UNIT_KINDS[unit]
  return kind ? format(kind, value) : `${format('count', value)} ${visible(unit)}`
}

/** Machines, processes, the bus and NATS. */
export class ClusterView {
  element
  #facts = new Facts()
  #missing = element('p', { className: 'bad' })
  #table
  #charts

  constructor(crosshair) {
    this.#table = new Table({
      caption: 'Processes of this machine',
      keyOf: ({ process }) => process,
      columns: [
        { label: 'Process', text: ({ process }) => String(process), isHeader: true },
        figure('Clients', 'count', 'clients'),
        figure('Channels', 'count', 'channels'),
        figure('Topics', 'count', 'topics'),
        figure('Connections', 'count', 'connections'),
        figure('Queued', 'bytes', 'queued_bytes'),
        { ...figure('Uptime', 'seconds', 'uptime_seconds'), text: ({ uptime_seconds }) => duration(uptime_seconds) },
      ],
    })
    this.#charts = new ChartGrid(CLUSTER_CHARTS, crosshair)
    this.element = element(
      'div',
      { className: 'view' },
      section('Machines', this.#facts.element),
      section('Processes', this.#missing, this.#table.element),
      section('Links, bus and NATS', this.#charts.element),
    )
  }

  update(model) {
    const { state } = model
    const latest = state.latest ?? {}
    const others = (state.machines ?? []).filter((machine) => machine !== state.machine)
    this.#facts.update([
      ['This view', visible(state.machine ?? '')],
      ['Other machines', others.length > 0 ? others.map(visible).join(', ') : 'None'],
      ...factsOf(latest, [
        ['cluster_links', 'Links', (value) => format('count', value)],
        ['nats_connected', 'NATS', (value) => (value > 0 ? 'Connected' : 'Not connected')],
        ['bus_queued_bytes', 'Bus queue', (value) => format('bytes', value)],
        ['bus_drops', 'Bus drops', (value) => format('rate', value)],
      ]),
    ])
    showMissing(this.#missing, state)
    this.#table.update(state.processes ?? [])
    this.#charts.update(model, model.options.range, model.moment)
  }
}

function showMissing(line, { missing_processes: missing = [] }) {
  line.hidden = missing.length === 0
  const names = missing.join(', ')
  setText(line, missing.length === 1 ? `Process ${names} does not answer.` : `Processes ${names} do not answer.`)
}

/** Facts about columns for which the server has a value. */
function factsOf(latest, list) {
  return list.filter(([column]) => Number.isFinite(latest[column])).map(([column, name, write]) => [name, write(latest[column])])
}

/** The cost of each process. */
export class RuntimeView {
  element
  #facts = new Facts()
  #missing = element('p', { className: 'bad' })
  #processes
  #tables = new Tables()
  #charts
  #tools

  constructor(app, crosshair) {
    this.#tools = new Tools(app)
    const list = element('ul', { className: 'processes' })
    this.#processes = new KeyedChildren(list, {
      keyOf: ({ process }) => process,
      create: (process) => new ProcessCard(app, process),
      update: (card, process) => card.update(process),
    })
    this.#charts = new ChartGrid(RUNTIME_CHARTS, crosshair)
    this.element = element(
      'div',
      { className: 'view' },
      section('Server', this.#facts.element),
      section('Processes', this.#missing, list),
      this.#tables.element,
      section('All processes', this.#charts.element),
      this.#tools.element,
    )
  }

  update(model) {
    const { state, nowMs } = model
    this.#facts.update([
      ['Version', visible(state.version ?? '')],
      ['Started', clock(state.started_ms, nowMs)],
      ['Uptime', duration((nowMs - state.started_ms) / 1000)],
      ...factsOf(state.latest ?? {}, [['certificate_end', 'TLS certificate', (end) => certificateText(1000 * end - nowMs, 1000 * end)]]),
    ])
    showMissing(this.#missing, state)
    const isOne = state.processes?.length === 1
    this.#processes.update((state.processes ?? []).map((process) => ({ ...process, isOne })))
    this.#tables.update(state.own_tables)
    this.#tools.update((state.processes ?? []).map(({ process }) => process))
    this.#charts.update(model, model.options.range, model.moment)
  }
}

function certificateText(leftMs, endMs) {
  return leftMs > 0 ? `Valid until ${date(endMs)}, for ${duration(leftMs / 1000)}` : `Expired on ${date(endMs)}`
}

class ProcessCard {
  element
  #facts = new Facts()
  #descriptors = new Meter('Descriptors')
  #loops = element('ul', { className: 'loops' })
  #bars
  #actions

  constructor(app, { process }) {
    const status = element('p', { className: 'small', role: 'status' })
    const end = async () => {
      try {
        const query = new URLSearchParams({ machine: app.options.machine })
        await app.api.send('POST', `/admin/processes/${process}/end?${query}`)
        setText(status, 'The process ends, and is started again.')
      } catch (error) {
        showFailure(app, status, error, 'Cannot end the process', ' Try again.')
      }
    }
    const question = 'End this process? Its clients lose their connections, and most connect again by themselves.'
    this.#actions = new Actions(app, [{ name: `End process ${process}`, question, run: end }])

    this.#bars = new KeyedChildren(this.#loops, {
      keyOf: ({ index }) => index,
      create: ({ index }) => new ShareBar(`Event loop ${index}`),
      update: (bar, { busy }) => bar.update(busy, Number.isFinite(busy) ? `${Math.round(100 * busy)} %` : '–'),
    })
    this.element = element(
      'li',
      {},
      element('h3', { textContent: `Process ${process}` }),
      this.#facts.element,
      this.#descriptors.element,
      this.#loops,
      status,
      this.#actions.element,
    )
  }

  update({ isOne, cpu, resident_bytes, open_fds, max_fds, uptime_seconds, busy = [] }) {
    const descriptors = useOf({ used: open_fds, max: max_fds })
    this.#facts.update([
      ['CPU', format('cores', cpu)],
      ['Memory', format('bytes', resident_bytes)],
      ['Uptime', duration(uptime_seconds)],
      ['Descriptors', descriptors],
    ])
    this.#descriptors.update(shareOf({ used: open_fds, max: max_fds }), descriptors)
    // Nothing would start the only process again.
    this.#actions.element.hidden = isOne
    this.#bars.update(busy.map((value, index) => ({ index, busy: value })))
  }
}

const EVENT_NAMES = { trouble_begin: 'Trouble begins', trouble_end: 'Trouble ends' }

/** The events of the server, newest first. */
export class EventsView {
  element
  #table
  #nowMs = 0

  constructor() {
    this.#table = new Table({
      caption: 'Events, newest first',
      empty: 'The server has recorded no events.',
      keyOf: ({ key }) => key,
      columns: [
        { label: 'Time', text: ({ time_ms }) => clock(time_ms, this.#nowMs), sort: ({ time_ms }) => time_ms },
        { label: 'Event', text: ({ text }) => visible(text), isHeader: true, isLong: true },
        { label: 'Kind', text: ({ kind }) => EVENT_NAMES[kind] ?? nameOf(kind) },
        numbers('Ago', ({ time_ms }) => duration((this.#nowMs - time_ms) / 1000)),
      ],
    })
    this.element = view('Events', this.#table.element)
  }

  update({ events, nowMs }) {
    this.#nowMs = nowMs
    const rows = events.map((event, index) => ({ ...event, key: `${event.time_ms} ${event.kind} ${index}` }))
    this.#table.update(rows.reverse())
  }
}
