// The details of one connection: its figures, its topics, its messages, and what the operator can do about it.

import { ErrorAnswer, guardChanges, showFailure } from './operator-api.js'
import { Facts, Table, button, clientText, element, figure, setText, wholeClientText } from './operator-dom.js'
import { Poller } from './operator-poller.js'
import { clock, counted, duration, format, short } from './operator-text.js'

export const REFRESH_MS = 2000

export const TRANSPORTS = { '': 'All', websocket: 'WebSocket', longpoll: 'Long poll', http: 'HTTP' }

export const transportName = (transport) => TRANSPORTS[transport] ?? short(transport)

/** A figure of the kernel. It is missing for a long-poll session that has no TCP connection now. */
export const tcpFigure = (row, name) => row.tcp?.[name] ?? NaN
export const roundTrip = (row) => format('seconds', tcpFigure(row, 'round_trip_micros') / 1e6)

/** All about one connection, its messages from now on, and the buttons that close it and deny its address. */
export class ConnectionDetail {
  title = 'Connection'
  element
  #app
  #id
  #poller
  #facts = new Facts()
  #tcp = new Facts()
  #tcpBox
  #topics = element('ul', { className: 'topics scroll', tabindex: 0, 'aria-label': 'Topics' })
  #topicTitle = element('h3')
  #topicKey = ''
  #status = element('p', { role: 'status' })
  #address = ''
  #messages
  #actions

  constructor(app, id) {
    this.#app = app
    this.#id = id
    this.#poller = new Poller((signal) => this.#load(signal), REFRESH_MS)
    this.#messages = new MessageList(app, `/admin/connections/${encodeURIComponent(id)}`)
    this.#actions = new Actions(app, [
      { name: 'Disconnect', question: 'Close this connection? Most clients connect again by themselves.', run: () => this.#disconnect() },
      {
        name: 'Deny address',
        question:
          'Refuse all requests of this address for an hour, and close its connections? Behind a proxy or a shared address, this may be many people.',
        run: () => this.#deny(),
      },
    ])
    this.#tcpBox = element('section', { hidden: true }, element('h3', { textContent: 'TCP' }), this.#tcp.element)
    this.element = element(
      'div',
      { className: 'view' },
      this.#status,
      this.#facts.element,
      this.#tcpBox,
      element('section', {}, this.#topicTitle, this.#topics),
      this.#messages.element,
      this.#actions.element,
    )
  }

  start() {
    this.#poller.start()
  }

  stop() {
    this.#poller.stop()
    this.#messages.stop()
  }

  get #path() {
    return `/admin/connections/${encodeURIComponent(this.#id)}`
  }

  async #load(signal) {
    try {
      this.#show(await this.#app.api.get(this.#path, {}, signal))
    } catch (error) {
      if (signal.aborted) return
      this.#failed(error, 'Cannot load the connection', ' Trying again.')
    }
  }

  #failed(error, what, advice) {
    if (error instanceof ErrorAnswer && error.status === 404) this.#gone()
    else showFailure(this.#app, this.#status, error, what, advice)
  }

  #gone() {
    this.stop()
    setText(this.#status, 'This connection is closed.')
    this.#actions.element.hidden = true
  }

  #show(connection) {
    setText(this.#status, '')
    this.#address = connection.address
    this.#facts.update([
      ['Address', clientText(connection.address)],
      ['Id', short(connection.id)],
      ['Transport', transportName(connection.transport)],
      ['State', short(connection.state ?? '')],
      ['User', connection.user ? wholeClientText(connection.user) : 'None'],
      ['Queued', `${format('bytes', connection.queued_bytes)} for ${format('seconds', connection.queue_seconds)}`],
      ['Idle', duration(connection.idle_seconds ?? NaN)],
      ['Sent', format('bytes', tcpFigure(connection, 'sent_bytes'))],
      ['Received', format('bytes', tcpFigure(connection, 'received_bytes'))],
    ])
    const { tcp } = connection
    this.#tcpBox.hidden = !tcp
    if (tcp) {
      this.#tcp.update([
        ['Round trip', roundTrip(connection)],
        ['Retransmits', format('count', tcp.retransmits)],
        ['Unacknowledged segments', format('count', tcp.unacknowledged_segments)],
        ['Unsent', format('bytes', tcp.unsent_bytes)],
        ['Congestion window', counted(tcp.congestion_window, 'segment')],
      ])
    }
    this.#showTopics(connection.topics ?? [], connection.channels)
  }

  #showTopics(topics, channels) {
    const key = JSON.stringify([topics, channels])
    if (key === this.#topicKey) return
    this.#topicKey = key
    setText(
      this.#topicTitle,
      channels > topics.length ? `Topics: the first ${topics.length} of ${format('count', channels)}` : `Topics: ${topics.length}`,
    )
    this.#topics.replaceChildren(...topics.map((topic) => element('li', {}, wholeClientText(topic))))
    this.#topics.hidden = topics.length === 0
  }

  async #disconnect() {
    try {
      await this.#app.api.send('POST', `${this.#path}/disconnect`)
      this.#gone()
      setText(this.#status, 'The server has closed this connection.')
    } catch (error) {
      this.#failed(error, 'Cannot close the connection', ' Try again.')
    }
  }

  async #deny() {
    try {
      const { disconnected } = await this.#app.api.send('PUT', `/admin/addresses/denied/${encodeURIComponent(this.#address)}`)
      this.#gone()
      setText(this.#status, `The server denies this address for an hour, and has closed ${counted(disconnected, 'connection')}.`)
    } catch (error) {
      showFailure(this.#app, this.#status, error, 'Cannot deny the address', ' Try again.')
    }
  }
}

/** Buttons of which each asks before it runs. They need the token. */
export class Actions {
  element
  #buttons
  #confirmation
  #question = element('p')
  #yes = button('', () => this.#run(), { className: 'danger' })
  #no = button('Cancel', () => this.#ask(null))
  /** @type {any} */
  #chosen = null

  /** Each has a `name`, a `question` and `run`. */
  constructor(app, actions) {
    const buttons = actions.map((action) => button(action.name, () => this.#ask(action), { className: 'danger' }))
    const note = element('p', { className: 'small' })
    guardChanges(app, note, buttons)
    this.#buttons = element('div', { className: 'bar' }, ...buttons, note)
    const bar = element('div', { className: 'bar' }, this.#yes, this.#no)
    this.#confirmation = element('div', { className: 'confirm', role: 'group', 'aria-label': 'Confirm', hidden: true }, this.#question, bar)
    this.element = element('div', {}, this.#buttons, this.#confirmation)
  }

  #run() {
    const { run } = this.#chosen
    this.#ask(null)
    run()
  }

  #ask(action) {
    this.#chosen = action
    this.#buttons.hidden = action !== null
    this.#confirmation.hidden = action === null
    if (action === null) return this.#buttons.firstChild.focus()
    setText(this.#question, action.question)
    setText(this.#yes, `${action.name} now`)
    this.#no.focus()
  }
}

const MESSAGES_MS = 1000
const MESSAGES_MAX = 100

/** The names and sizes of a connection's messages, from the moment the operator asks for them. */
class MessageList {
  element
  #app
  #path
  #poller
  #rows = []
  #last = 0
  #sinceMs = 0
  #watch = button('Watch messages', () => this.#toggle())
  #payloads = element('input', { type: 'checkbox', onchange: () => this.#setPayloads() })
  #payloadsField = element('label', { className: 'check', hidden: true }, this.#payloads, 'Show payloads')
  #status = element('p', { className: 'small', role: 'status' })
  #table = new Table({
    caption: 'Messages, the last one first',
    empty: 'No message yet.',
    keyOf: ({ number }) => number,
    columns: [
      { label: 'Time', isHeader: true, text: ({ time_ms: ms }) => clock(ms), sort: ({ number }) => number },
      { label: 'Direction', text: ({ direction }) => (direction === 'received' ? 'from client' : 'to client') },
      { label: 'Event', value: ({ event }) => event, nodes: cutText },
      figure('Payload', 'bytes', 'payload_bytes'),
      { label: 'Topic', value: ({ topic }) => topic, nodes: cutText },
      { label: 'Content', value: ({ payload }) => payload, nodes: cutText },
    ],
  })

  constructor(app, path) {
    this.#app = app
    this.#path = path
    this.#poller = new Poller((signal) => this.#load(signal), MESSAGES_MS)
    this.#table.element.hidden = true
    const note = element('span', { className: 'small' })
    guardChanges(app, note, [this.#payloads])
    this.#payloadsField.append(note)
    const bar = element('div', { className: 'bar' }, this.#watch, this.#payloadsField)
    this.element = element(
      'section',
      { className: 'messages' },
      element('h3', { textContent: 'Messages' }),
      bar,
      this.#status,
      this.#table.element,
    )
  }

  stop() {
    this.#poller.stop()
    setText(this.#watch, 'Watch messages')
  }

  #toggle() {
    if (this.#watch.textContent !== 'Watch messages') return this.stop()
    setText(this.#watch, 'Stop watching')
    this.#table.element.hidden = false
    this.#payloadsField.hidden = false
    this.#poller.start()
  }

  async #load(signal) {
    try {
      this.#show(await this.#app.api.get(`${this.#path}/messages`, { after: this.#last }, signal))
    } catch (error) {
      if (!signal.aborted) showFailure(this.#app, this.#status, error, 'Cannot load messages')
    }
  }

  async #setPayloads() {
    const shown = this.#payloads.checked
    try {
      await this.#app.api.send('PUT', `${this.#path}/payloads?shown=${shown}`)
    } catch (error) {
      this.#payloads.checked = !shown
      showFailure(this.#app, this.#status, error, 'Cannot change this')
    }
  }

  #show({ since_ms: sinceMs, has_payloads: hasPayloads, missed, messages }) {
    // The server forgets a watch for which nobody asks, such as while this tab is in the background.
    if (sinceMs !== this.#sinceMs) this.#rows = []
    this.#sinceMs = sinceMs
    this.#rows = [...messages.toReversed(), ...this.#rows].slice(0, MESSAGES_MAX)
    this.#last = this.#rows[0]?.number ?? 0
    this.#payloads.checked = hasPayloads
    this.#table.update(this.#rows)
    const lost = missed > 0 ? ` ${counted(missed, 'message')} came too fast to be shown.` : ''
    setText(this.#status, `Watched since ${clock(sinceMs)}. The list has the last ${MESSAGES_MAX}.${lost}`)
  }
}

/** A text of the client, if there is one. */
const cutText = (text) => (text ? [clientText(text, 60)] : [])
