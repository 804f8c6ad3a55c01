// The views Connections and Topics, which ask the server for a list, and the details of one row.

import { TokenNeeded, showFailure } from './operator-api.js'
import { Actions, ConnectionDetail, REFRESH_MS, TRANSPORTS, roundTrip, tcpFigure, transportName } from './operator-connection.js'
import { DeniedAddresses } from './operator-denied.js'
import { Table, button, clientText, element, numbers, select, setText, view, wholeClientText } from './operator-dom.js'
import { Poller } from './operator-poller.js'
import { clock, counted, format, short } from './operator-text.js'

const SORTS = {
  queued_bytes: 'Queued bytes',
  queue_seconds: 'Queue time',
  idle_seconds: 'Idle time',
  sent_bytes: 'Sent bytes',
  received_bytes: 'Received bytes',
  channels: 'Channels',
}
const TOPIC_SORTS = { subscribers: 'Subscribers', messages: 'Messages a second', bytes: 'Bytes a second' }
const LIMITS = { 20: '20', 50: '50', 100: '100', 200: '200' }

/** The values that these options of a link may have. */
export const CHOICES = {
  sort: Object.keys(SORTS),
  order: Object.keys(TOPIC_SORTS),
  transport: Object.keys(TRANSPORTS),
  limit: Object.keys(LIMITS),
}

/** A field for text of a client. The option stays as it is until the person edits the field, which cannot hold every text. */
function field(label, onChange) {
  const control = element('input', {
    type: 'text',
    dir: 'auto',
    spellcheck: 'false',
    autocomplete: 'off',
    onchange: () => onChange(control.value),
  })
  return { control, field: element('label', {}, label, control) }
}

function setValue(control, value) {
  if (document.activeElement !== control && control.value !== value) control.value = value
}

/**
 * A list that is loaded every two seconds while it is shown, unless the operator pauses it. `controls` are named after the
 * options of the link that they change.
 */
class ListView {
  element
  app
  table
  dialog
  #controls
  #poller
  #status = element('p', { className: 'small list-status' })
  #pause

  constructor(app, title, controls, table, dialog) {
    this.app = app
    this.table = table
    this.dialog = dialog
    this.#controls = Object.entries(controls)
    this.#poller = new Poller((signal) => this.#load(signal), REFRESH_MS)
    this.#pause = button('Pause', () => app.choose({ paused: app.options.paused ? '' : '1' }))
    const form = element(
      'form',
      { className: 'filters', onsubmit: (event) => event.preventDefault() },
      ...this.#controls.map(([, { field }]) => field),
      this.#pause,
    )
    this.element = view(title, form, this.#status, table.element)
  }

  show() {
    this.reload()
  }

  hide() {
    this.#poller.stop()
    this.dialog.dismiss()
  }

  /**
   * Loads the list; returns a sentence about it.
   * @param {AbortSignal} _signal
   */
  async load(_signal) {
    return ''
  }

  /** Loads at once, and again regularly unless paused. */
  reload() {
    setText(this.#pause, this.app.options.paused ? 'Resume' : 'Pause')
    this.#poller.stop()
    this.#poller.start()
  }

  async #load(signal) {
    try {
      for (const [name, { control }] of this.#controls) setValue(control, this.app.options[name])
      const note = await this.load(signal)
      setText(this.#status, `${note} · ${this.app.options.paused ? 'paused since' : 'updated at'} ${clock(Date.now())}`)
      this.#status.classList.remove('bad')
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof TokenNeeded) return this.app.askForToken(error)
      setText(this.#status, `Cannot load the list: ${error.message}. Trying again.`)
      this.#status.classList.add('bad')
      return
    }
    if (this.app.options.paused) this.#poller.stop()
  }

  update() {}
}

export class ConnectionsView extends ListView {
  #denied

  constructor(app, dialog) {
    const controls = {
      sort: select('Sort by', SORTS, (sort) => app.choose({ sort })),
      transport: select('Transport', TRANSPORTS, (transport) => app.choose({ transport })),
      address: field('Address begins with', (address) => app.choose({ address })),
      topic: field('Topic', (topic) => app.choose({ topic })),
      limit: select('Rows', LIMITS, (limit) => app.choose({ limit })),
    }
    const table = new Table({
      caption: 'Connections',
      empty: 'No connection matches.',
      keyOf: ({ id }) => id,
      onSort: (sort) => app.choose({ sort }),
      onRow: ({ id }) => app.choose({ id }),
      columns: [
        { label: 'Address', isHeader: true, value: ({ address }) => address, nodes: opener },
        { label: 'Transport', text: ({ transport }) => transportName(transport) },
        { label: 'State', text: ({ state }) => short(state ?? '') },
        numbers('Queued', (row) => format('bytes', row.queued_bytes), 'queued_bytes'),
        numbers('Queue time', (row) => format('seconds', row.queue_seconds), 'queue_seconds'),
        numbers('Idle', (row) => format('seconds', row.idle_seconds ?? NaN), 'idle_seconds'),
        numbers('Sent', (row) => format('bytes', tcpFigure(row, 'sent_bytes')), 'sent_bytes'),
        numbers('Received', (row) => format('bytes', tcpFigure(row, 'received_bytes')), 'received_bytes'),
        numbers('Round trip', roundTrip),
        numbers('Retransmits', (row) => format('count', tcpFigure(row, 'retransmits'))),
        numbers('Channels', (row) => format('count', row.channels), 'channels'),
        { label: 'Topics', value: ({ topics, channels }) => [topics, channels], nodes: firstTopics },
        { label: 'User', value: ({ user }) => user, nodes: (user) => [clientText(user)] },
      ],
    })
    super(app, 'Connections', controls, table, dialog)
    this.#denied = new DeniedAddresses(app)
    this.element.append(this.#denied.element)
  }

  async load(signal) {
    const { options } = this.app
    this.table.markSorted(options.sort)
    this.#showDetail(options.id)
    const { machine, sort, limit, transport, address, topic } = options
    const answer = await this.app.api.get('/admin/connections', { machine, sort, limit, transport, address, topic }, signal)
    this.table.update(answer.connections)
    await this.#denied.load(signal)
    const took = format('seconds', answer.scan_micros / 1e6)
    return `${counted(answer.connections.length, 'row')} of ${counted(answer.scanned, 'connection')}, read in ${took}`
  }

  #showDetail(id) {
    if (id === '') this.dialog.dismiss()
    else
      this.dialog.open(
        `connection ${id}`,
        () => new ConnectionDetail(this.app, id),
        () => this.app.choose({ id: '' }),
      )
  }
}

/** The first cell of a row: a button, so that the keyboard can open the row too. The click goes on to the row. */
const opener = (text) => [element('button', { type: 'button', className: 'link', 'aria-haspopup': 'dialog' }, clientText(text))]

const TOPICS_IN_ROW = 2
const TOPIC_IN_ROW = 40

function firstTopics([topics, channels]) {
  const shown = topics.slice(0, TOPICS_IN_ROW).map((topic) => clientText(topic, TOPIC_IN_ROW))
  const more = Math.max(channels, topics.length) - shown.length
  return [...shown.flatMap((topic, index) => (index > 0 ? [', ', topic] : [topic])), more > 0 ? ` and ${more} more` : '']
}

export class TopicsView extends ListView {
  constructor(app, dialog) {
    const controls = {
      order: select('Sort by', TOPIC_SORTS, (order) => app.choose({ order })),
      prefix: field('Topic begins with', (prefix) => app.choose({ prefix })),
      limit: select('Rows', LIMITS, (limit) => app.choose({ limit })),
    }
    const open = (row) => dialog.open(`topic ${row.topic}`, () => new TopicDetail(app, row))
    const table = new Table({
      caption: 'Topics',
      empty: 'No topic matches.',
      keyOf: ({ topic }) => topic,
      onSort: (order) => app.choose({ order }),
      onRow: open,
      columns: [
        { label: 'Topic', isHeader: true, isLong: true, value: ({ topic }) => topic, nodes: opener },
        numbers('Subscribers', ({ subscribers }) => format('count', subscribers), 'subscribers'),
        numbers('Messages', ({ messages }) => format('rate', messages), 'messages'),
        numbers('Bytes', ({ bytes }) => format('byte_rate', bytes), 'bytes'),
        { label: 'Owner', text: ownerOf },
        numbers('History', ({ kept }) => (kept === null ? 'None' : format('count', kept))),
      ],
    })
    super(app, 'Topics', controls, table, dialog)
  }

  async load(signal) {
    const { options } = this.app
    const { machine, order, limit, prefix } = options
    this.table.markSorted(order)
    const answer = await this.app.api.get('/admin/topics', { machine, sort: order, limit, prefix }, signal)
    this.table.update(answer.topics)
    return `${counted(answer.topics.length, 'topic')}, read in ${format('seconds', answer.scan_micros / 1e6)}`
  }
}

/** The event loop with the most subscribers, and how many others have some. */
const ownerOf = ({ owner, loops }) => (loops > 1 ? `${owner} and ${counted(loops - 1, 'other')}` : owner)

/** The whole name of a topic, and the button that ends it. */
class TopicDetail {
  title = 'Topic'
  element

  constructor(app, { topic, subscribers }) {
    const show = () => app.choose({ tab: 'connections', topic, id: '' })
    const status = element('p', { role: 'status' })
    const end = async () => {
      try {
        const { channels } = await app.api.send('POST', `/admin/topics/end?${new URLSearchParams({ topic })}`)
        actions.element.hidden = true
        setText(status, `The server has closed ${counted(channels, 'channel')}.`)
      } catch (error) {
        showFailure(app, status, error, 'Cannot end the topic', ' Try again.')
      }
    }
    const question = 'Close the channels of all its subscribers, on all machines? They may join again.'
    const actions = new Actions(app, [{ name: 'End topic', question, run: end }])
    this.element = element(
      'div',
      { className: 'view' },
      element('div', { className: 'scroll whole-topic', tabindex: 0, role: 'region', 'aria-label': 'Full name' }, wholeClientText(topic)),
      element('p', {
        textContent: `${counted(subscribers, 'subscriber')}. The name has ${format('bytes', new TextEncoder().encode(topic).length)}.`,
      }),
      element('div', { className: 'bar' }, button('Show its connections', show)),
      status,
      actions.element,
    )
  }

  start() {}
  stop() {}
}

/** The dialog for the details of one row. */
export class DetailDialog {
  #dialog
  /** @type {string | null} */
  #key = null
  /** @type {{ element: Element, title: string, start(): void, stop(): void } | null} */
  #content = null
  /** @type {(() => void) | null} */
  #onClose = null

  constructor(dialog) {
    this.#dialog = dialog
    dialog.addEventListener('close', () => this.#closed())
    // A click on the backdrop has the dialog itself as its target.
    dialog.addEventListener('click', (event) => event.target === dialog && this.close())
  }

  /** Shows content that `create` makes, unless that of this key is already shown. */
  open(key, create, onClose = null) {
    if (this.#key === key) return
    this.#content?.stop()
    this.#key = key
    const content = create()
    this.#content = content
    this.#onClose = onClose
    const close = button('Close', () => this.close(), { className: 'quiet' })
    const head = element('header', { className: 'bar' }, element('h2', { id: 'detail-title', textContent: content.title }), close)
    this.#dialog.replaceChildren(element('div', { className: 'detail' }, head, content.element))
    if (!this.#dialog.open) this.#dialog.showModal()
    content.start()
  }

  close() {
    if (this.#dialog.open) this.#dialog.close()
    this.#closed()
  }

  /** Closes without a call of `onClose`: the caller knows. */
  dismiss() {
    this.#onClose = null
    this.close()
  }

  /** The event of the browser comes later, and then other content may be open already. */
  #closed() {
    if (this.#key === null || this.#dialog.open) return
    this.#content?.stop()
    const onClose = this.#onClose
    this.#key = null
    this.#content = null
    this.#onClose = null
    // The browser returns the focus to the row that opened the dialog, unless the row is gone.
    const { activeElement } = document
    const tab = /** @type {HTMLElement} */ (document.querySelector('[role="tab"][aria-selected="true"]'))
    if (activeElement === document.body || this.#dialog.contains(activeElement)) tab.focus()
    onClose?.()
  }
}
