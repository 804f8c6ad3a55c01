// The operator's page: options in the URL, tabs, and the calls that repeat.
//
// Each second it loads the state, and the rows of the history that are newer than its last one: 900 rows at first (less
// than 1 MB), then one. So a page that is open all day costs the server one short answer a second, and a tab in the background
// costs nothing (`Poller`). All views are built once and updated in place: a view that is built anew every second would
// lose the focus, the selected text and the position of a scroll bar.

import { Api, NoAnswer, TokenNeeded } from './operator-api.js'
import { Crosshair, SPAN_ROWS_MIN } from './operator-chart.js'
import { KeyedChildren, element, setText } from './operator-dom.js'
import { HistoryWindow } from './operator-history.js'
import { Poller } from './operator-poller.js'
import { CHOICES, ConnectionsView, DetailDialog, TopicsView } from './operator-tables.js'
import { clock, counted, duration, visible } from './operator-text.js'
import { pastProfile } from './operator-tools.js'
import { ClusterView, EventsView, HomeView, LiveView, PagesView, RuntimeView } from './operator-views.js'

const POLL_MS = 1000
/** Events and the rows of minutes change rarely, so they are loaded with every fifth load of the seconds. */
const SLOW_TURNS = 5
const EVENTS_MAX = 256

const STEPS = { '15m': 'second', '24h': 'minute', '31d': 'hour' }

/** The tabs, and which options each has in the URL. Every tab also has the machine. */
const TABS = {
  home: { name: 'Home', options: [] },
  live: { name: 'Live', options: ['range', 'at', 'span'] },
  connections: { name: 'Connections', options: ['sort', 'transport', 'address', 'topic', 'limit', 'id', 'paused'] },
  topics: { name: 'Topics', options: ['order', 'prefix', 'limit', 'paused'] },
  pages: { name: 'Pages and blocks', options: ['range', 'at', 'span'] },
  cluster: { name: 'Cluster', options: ['range', 'at', 'span'] },
  runtime: { name: 'Runtime', options: ['range', 'at', 'span'] },
  events: { name: 'Events', options: [] },
}

const DEFAULTS = {
  tab: 'home',
  machine: '',
  range: '15m',
  at: '',
  span: '',
  sort: 'queued_bytes',
  order: 'subscribers',
  transport: '',
  address: '',
  topic: '',
  prefix: '',
  limit: '20',
  id: '',
  paused: '',
}

/** Options that a link may only set to certain values. */
const IS_VALID = {
  range: (value) => Object.hasOwn(STEPS, value),
  at: (value) => /^[1-9]\d{0,14}$/.test(value),
  span: (value) => /^[1-9]\d{0,9}$/.test(value),
  sort: (value) => CHOICES.sort.includes(value),
  order: (value) => CHOICES.order.includes(value),
  transport: (value) => CHOICES.transport.includes(value),
  limit: (value) => CHOICES.limit.includes(value),
  id: (value) => /^[\w-]{0,64}$/.test(value),
  paused: (value) => value === '1',
}

/** The icon of the page while a trouble lasts: a red disc. */
const TROUBLE_ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Ccircle fill='%23d11' cx='16' cy='16' r='14'/%3E%3C/svg%3E"

const optionsOf = (tab) => ['machine', ...TABS[tab].options]

/** Options of a URL's hash, such as `#connections?sort=idle_seconds`. The others stay as they are. */
function parseHash(hash, current) {
  const [, name, query] = /** @type {string[]} */ (/^#?([^?]*)(.*)$/.exec(hash))
  const tab = Object.hasOwn(TABS, name) ? name : DEFAULTS.tab
  const parameters = new URLSearchParams(query)
  const options = { ...current, tab, id: '' }
  for (const key of optionsOf(tab)) {
    const value = parameters.get(key)
    options[key] = value !== null && (IS_VALID[key]?.(value) ?? true) ? value : DEFAULTS[key]
  }
  return options
}

function hashOf(options) {
  const set = optionsOf(options.tab).filter((key) => options[key] !== DEFAULTS[key])
  const query = new URLSearchParams(set.map((key) => [key, options[key]])).toString()
  return query ? `#${options.tab}?${query}` : `#${options.tab}`
}

/** An element of index.html. */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id))

class App {
  options = parseHash(location.hash, DEFAULTS)
  api = new Api()
  #histories = newHistories()
  #events = []
  /** @type {any} The figures and events around the moment of the link; null before they are loaded. */
  #moment = null
  /** @type {any} The last answer; null before the first. */
  #state = null
  #problems = new Map()
  /** @type {Map<string, any> | null} */
  #troubles = null
  #icon = document.querySelector('link[rel=icon]')?.getAttribute('href') ?? ''
  #turn = 0
  #isRunning = false
  #statePoller = new Poller((signal) => this.#load('state', () => this.#loadState(signal), signal), POLL_MS)
  #historyPoller = new Poller((signal) => this.#load('history', () => this.#loadHistory(signal), signal), POLL_MS)
  #dialog = new DetailDialog(byId('detail'))
  #machine = /** @type {HTMLSelectElement} */ (byId('machine'))
  #views = this.#createViews()
  #tabs = new Map()
  #panels = new Map()
  #range
  #machineOptions

  constructor() {
    this.#buildTabs()
    this.#range = this.#buildRange()
    this.#machineOptions = new KeyedChildren(this.#machine, {
      keyOf: (name) => name,
      create: (name) => element('option', { value: name, textContent: visible(name) }),
      update: () => {},
    })
    this.#machine.addEventListener('change', () => this.choose({ machine: this.#machine.value }))
    byId('own-machine').addEventListener('click', () => this.choose({ machine: '' }))
    byId('forget').addEventListener('click', () => this.askForToken(null))
    byId('token-form').addEventListener('submit', (event) => this.#submitToken(event))
    // A link to "#content" would be an option of the page.
    byId('skip').addEventListener('click', (event) => {
      event.preventDefault()
      byId('content').focus()
    })
    addEventListener('hashchange', () => this.#apply(parseHash(location.hash, this.options)))
    this.#showTab()
    this.#start()
  }

  /** Changes options; the URL follows. A change of the tab is a step of the browser's history. */
  choose(changes) {
    const isOtherTab = changes.tab !== undefined && changes.tab !== this.options.tab
    const options = { ...this.options, ...(isOtherTab ? { id: '' } : {}), ...changes }
    if (isOtherTab) history.pushState(null, '', hashOf(options))
    else history.replaceState(null, '', hashOf(options))
    this.#apply(options)
  }

  #apply(options) {
    const before = this.options
    this.options = options
    if (options.machine !== before.machine) this.#forgetMachine()
    if (options.tab !== before.tab) {
      this.#views[before.tab].hide?.()
      this.#showTab()
    } else if (this.#isRunning) this.#views[options.tab].reload?.()
    this.#historyPoller.now()
    this.#render()
  }

  /** Stops, and shows the form for the token. `error` is the answer to the last token. */
  askForToken(error) {
    this.#isRunning = false
    this.#statePoller.stop()
    this.#historyPoller.stop()
    this.#views[this.options.tab].hide?.()
    this.api.token = ''
    this.#forgetMachine()
    byId('app').hidden = true
    byId('banner').hidden = true
    byId('token-form').hidden = false
    setText(byId('token-error'), error?.hadToken ? 'The server rejected this token. Compare it with admin.token and try again.' : '')
    setText(byId('connection'), 'Waiting for the token')
    byId('connection').dataset.level = ''
    byId('forget').hidden = true
    byId('machine-choice').hidden = true
    setText(byId('server'), '')
    byId('token').focus()
  }

  #start() {
    this.#isRunning = true
    this.#statePoller.start()
    this.#historyPoller.start()
    this.#views[this.options.tab].show?.()
  }

  #submitToken(event) {
    event.preventDefault()
    const input = /** @type {HTMLInputElement} */ (byId('token'))
    const token = input.value.trim()
    if (!/^[\x21-\x7e]+$/.test(token)) {
      setText(byId('token-error'), 'A token has only ASCII characters and no spaces. Check it and try again.')
      return
    }
    this.api.token = token
    input.value = ''
    setText(byId('token-error'), '')
    byId('token-form').hidden = true
    setText(byId('connection'), 'Connecting…')
    this.#start()
  }

  // The calls.

  /** Runs a load, and notes whether it failed. */
  async #load(name, load, signal) {
    try {
      await load()
      this.#problems.delete(name)
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof TokenNeeded) return this.askForToken(error)
      this.#problems.set(name, error)
    }
    if (!signal.aborted) this.#render()
  }

  async #loadState(signal) {
    const state = await this.api.get('/admin/state', { machine: this.options.machine }, signal)
    // A new server may have another clock.
    if (this.#state && state.started_ms !== this.#state.started_ms) this.#forgetHistory()
    this.#state = state
    this.#announceTroubles(state.troubles ?? [])
  }

  async #loadHistory(signal) {
    const turn = this.#turn++
    const isSlow = turn % SLOW_TURNS === 0
    const tab = TABS[this.options.tab]
    if (isSlow) await this.#loadEvents(signal)
    await this.#loadRange('15m', signal)
    const range = tab.options.includes('range') ? this.options.range : '15m'
    if (range !== '15m' && (isSlow || this.#histories[range].rows.length === 0)) await this.#loadRange(range, signal)
    if (tab.options.includes('at') && this.options.at && this.#moment?.key !== this.#momentKey) await this.#loadMoment(signal)
  }

  get #momentKey() {
    return `${this.options.at} ${this.options.span}`
  }

  /**
   * Loads the time around the moment of the link: 15 minutes by the second, or its span in milliseconds; where the record does
   * not have so much by the second, by the minute or by the hour.
   */
  async #loadMoment(signal) {
    const [key, at, spanMs] = [this.#momentKey, Number(this.options.at), Number(this.options.span)]
    const of = { machine: this.options.machine }
    for (const [range, history] of Object.entries(newHistories())) {
      if (spanMs > history.windowMs && range !== '31d') continue
      if (spanMs > 0) history.windowMs = Math.max(spanMs, SPAN_ROWS_MIN * history.stepMs)
      const [from, until] = [-1, 1].map((sign) => Math.round(at + (sign * history.windowMs) / 2))
      const span = { after: Math.max(1, from - 1), until }
      history.merge(await this.api.get('/admin/history', { ...of, step: STEPS[range], ...span }, signal))
      if (history.rows.length === 0 && range !== '31d') continue
      const { events } = await this.api.get('/admin/events', { ...of, ...span }, signal)
      // The time after the last row is not drawn.
      const toMs = Math.min(span.until, Math.max(at, history.lastMs))
      const name = spanMs > 0 ? `${clock(from)} to ${clock(until)}` : `around ${clock(at)}`
      this.#moment = { key, name, toMs, history, events }
      return
    }
  }

  async #loadRange(range, signal) {
    const history = this.#histories[range]
    const load = () => this.api.get('/admin/history', { machine: this.options.machine, step: STEPS[range], after: history.lastMs }, signal)
    if (!history.merge(await load())) history.merge(await load())
  }

  async #loadEvents(signal) {
    const after = this.#events.at(-1)?.time_ms ?? 0
    const { events } = await this.api.get('/admin/events', { machine: this.options.machine, after }, signal)
    this.#events = [...this.#events, ...events.filter(({ time_ms: ms }) => ms > after)].slice(-EVENTS_MAX)
  }

  #forgetHistory() {
    this.#histories = newHistories()
    this.#events = []
    this.#moment = null
    this.#turn = 0
  }

  #forgetMachine() {
    this.#forgetHistory()
    this.#state = null
    this.#troubles = null
    this.#problems.clear()
    this.#statePoller.now()
    this.#historyPoller.now()
  }

  /** Tells a screen reader about troubles that begin or end. */
  #announceTroubles(troubles) {
    const now = new Map(troubles.map((trouble) => [`${trouble.kind} ${trouble.since_ms}`, trouble.summary]))
    const before = this.#troubles
    // The end of a trouble has the words of its begin.
    for (const [key, words] of before ?? []) if (now.has(key)) now.set(key, words)
    this.#troubles = now
    if (before === null) return announce(now.size > 0 ? `${counted(now.size, 'trouble')}: ${[...now.values()].join('. ')}` : 'No trouble')
    const began = [...now].filter(([key]) => !before.has(key)).map(([, summary]) => `New trouble: ${summary}`)
    const ended = [...before].filter(([key]) => !now.has(key)).map(([, summary]) => `Ended: ${summary}`)
    if (began.length + ended.length > 0) announce([...began, ...ended].join('. '))
  }

  /** Shows a span that was marked in a chart, or what was shown before it. The link has it. */
  #showSpan(fromMs, untilMs) {
    const { tab, span } = this.options
    const at = String(Math.round((fromMs + untilMs) / 2))
    if (fromMs < untilMs) this.choose({ tab: optionsOf(tab).includes('span') ? tab : 'live', at, span: String(untilMs - fromMs) })
    else if (span !== '') this.choose({ at: '', span: '' })
  }

  // The page.

  #createViews() {
    const crosshair = new Crosshair(announce, (fromMs, untilMs) => this.#showSpan(fromMs, untilMs))
    return {
      home: new HomeView(crosshair),
      live: new LiveView(crosshair),
      connections: new ConnectionsView(this, this.#dialog),
      topics: new TopicsView(this, this.#dialog),
      pages: new PagesView(this, crosshair),
      cluster: new ClusterView(crosshair),
      runtime: new RuntimeView(this, crosshair),
      events: new EventsView(),
    }
  }

  #buildTabs() {
    for (const [id, { name }] of Object.entries(TABS)) {
      const onclick = () => this.choose({ tab: id })
      const tab = element('button', { type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': `panel-${id}`, onclick }, name)
      const panel = element('div', { role: 'tabpanel', id: `panel-${id}`, 'aria-labelledby': `tab-${id}` }, this.#views[id].element)
      this.#tabs.set(id, tab)
      this.#panels.set(id, panel)
    }
    byId('tabs').append(...this.#tabs.values())
    byId('panels').append(...this.#panels.values())
    byId('tabs').addEventListener('keydown', (event) => this.#tabKey(event))
  }

  #tabKey(event) {
    const ids = Object.keys(TABS)
    const at = ids.indexOf(this.options.tab)
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + ids.length, Home: 0, End: ids.length - 1 }[event.key]
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    const id = ids[next % ids.length]
    this.choose({ tab: id })
    this.#tabs.get(id).focus()
  }

  #showTab() {
    const { tab } = this.options
    for (const [id, button] of this.#tabs) {
      const isShown = id === tab
      button.setAttribute('aria-selected', String(isShown))
      button.tabIndex = isShown ? 0 : -1
      this.#panels.get(id).hidden = !isShown
    }
    this.#tabs.get(tab).scrollIntoView({ block: 'nearest', inline: 'nearest' })
    if (this.#isRunning) this.#views[tab].show?.()
  }

  #buildRange() {
    const choice = (range, label) => {
      const onchange = () => this.choose({ range, at: '', span: '' })
      const input = element('input', { type: 'radio', name: 'range', value: range, onchange })
      return element('label', {}, input, element('span', { textContent: label }))
    }
    const choices = element(
      'fieldset',
      { className: 'switch' },
      element('legend', { className: 'unseen', textContent: 'Range of the charts' }),
      choice('15m', '15 minutes'),
      choice('24h', '24 hours'),
      choice('31d', '31 days'),
    )
    const moment = element('input', { type: 'datetime-local', id: 'moment', step: '1' })
    moment.addEventListener('change', () => {
      const at = new Date(moment.value).getTime()
      this.choose({ at: at > 0 ? String(at) : '', span: '' })
    })
    const bar = element('div', { className: 'bar ranges' }, choices, element('label', {}, 'Moment ', moment), pastProfile(this))
    byId('panels').before(bar)
    return bar
  }

  #render() {
    this.#renderConnection()
    const { tab, range, at } = this.options
    this.#range.hidden = !TABS[tab].options.includes('range')
    for (const input of this.#range.querySelectorAll('[type=radio]')) input.checked = at === '' && input.value === range
    const moment = /** @type {HTMLInputElement} */ (byId('moment'))
    if (document.activeElement !== moment) moment.value = at ? localTime(Number(at)) : ''
    byId('past-profile').hidden = at === ''
    const wasHidden = byId('app').hidden
    byId('app').hidden = this.#state === null
    if (this.#state === null) return
    // The tab of a link may be beyond the edge of a phone.
    if (wasHidden) this.#tabs.get(tab).scrollIntoView({ block: 'nearest', inline: 'nearest' })
    this.#renderHeader()
    this.#views[tab].update({
      state: this.#state,
      nowMs: this.#state.now_ms,
      isCurrent: !this.#problems.has('state'),
      histories: this.#histories,
      events: this.#events,
      options: this.options,
      moment: at && this.#moment?.key === this.#momentKey ? this.#moment : null,
    })
  }

  #renderHeader() {
    const { machine, machines = [], version, troubles = [], ...state } = this.#state
    setText(byId('server'), `${visible(machine)} · version ${visible(version)} · up ${duration((state.now_ms - state.started_ms) / 1000)}`)
    this.#machineOptions.update(machines.includes(machine) ? machines : [machine, ...machines])
    byId('machine-choice').hidden = machines.length < 2
    if (document.activeElement !== this.#machine) this.#machine.value = machine
    byId('forget').hidden = this.api.token === ''
    setText(this.#tabs.get('home'), troubles.length > 0 ? `Home: ${counted(troubles.length, 'trouble')}` : 'Home')
    this.#tabs.get('home').classList.toggle('has-trouble', troubles.length > 0)
    document.querySelector('link[rel=icon]')?.setAttribute('href', troubles.length > 0 ? TROUBLE_ICON : this.#icon)
    document.title = `${troubles.length > 0 ? `(${troubles.length}) ` : ''}${visible(machine)} · Watchfire`
  }

  /** Whether the server answers. The views keep the last values while it does not. */
  #renderConnection() {
    const problem = this.#problems.get('state') ?? this.#problems.get('history') ?? null
    const banner = byId('banner')
    banner.hidden = problem === null
    byId('own-machine').hidden = this.options.machine === ''
    byId('flame').classList.toggle('unavailable', this.#problems.has('state'))
    byId('connection').dataset.level = problem ? 'trouble' : 'calm'
    if (problem) {
      const last = this.#state ? ` Its last answer was at ${clock(this.#state.now_ms)}; this page shows the values of that time.` : ''
      const what =
        problem instanceof NoAnswer
          ? `The server does not answer: ${problem.message}.${last}`
          : `Cannot read the values of the server: ${problem.message}.`
      setText(byId('problem'), `${what} Trying again every second.`)
      setText(byId('connection'), problem instanceof NoAnswer ? 'No answer' : 'Error')
    } else if (this.#state) setText(byId('connection'), `Live · ${clock(this.#state.now_ms)}`)
  }
}

function newHistories() {
  const hour = 3_600_000
  return {
    '15m': new HistoryWindow(1000, hour / 4),
    '24h': new HistoryWindow(60_000, 24 * hour),
    '31d': new HistoryWindow(hour, 31 * 24 * hour),
  }
}

/** A time as the value of an input for date and time, which has the local time. */
function localTime(ms) {
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

function announce(text) {
  setText(byId('announcement'), visible(text))
}

new App()
