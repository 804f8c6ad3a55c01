// A stock Phoenix client on one of its transports and serializers.

import { newest, phoenixClients } from './phoenix-clients.mjs'
import { Inbox, SOON_MS, withTimeout } from './deadlines.mjs'
import { CloseRecordingWebSocket } from './close-codes.mjs'

const v1 = {
  vsn: '1.0.0',
  encode: (message, callback) => callback(JSON.stringify(message)),
  decode: (text, callback) => callback(JSON.parse(text)),
}

const variantsOf = (library) => [
  { name: 'V2 websocket', serializer: 2, isPoll: false, options: {} },
  ...(library.acceptsVersion ? [{ name: 'V1 websocket', serializer: 1, isPoll: false, options: v1 }] : []),
  { name: 'long poll', serializer: 2, isPoll: true, options: {} },
]

/** Every client version on every transport and serializer that it has. */
export const variants = phoenixClients.flatMap((library) =>
  variantsOf(library).map((variant) => ({ ...variant, library, name: `phoenix ${library.version} over ${variant.name}` })),
)

/** The newest client on a WebSocket. */
export const newestWay = variants.find(({ library, isPoll }) => library === newest && !isPoll)

/** The variants for which the predicate is true. */
export const variantsWhere = (wanted) => variants.filter(wanted)

/** Short delays, so that tests end soon; everything else is as published. */
function shortDelays(library) {
  const ms = library.repeatsJoins ? 500 : 10
  return { reconnectAfterMs: () => ms, rejoinAfterMs: () => ms }
}

/** A client that disconnects when its test ends. */
export function connect(t, server, variant, options = {}) {
  const client = new Client(server, variant, options)
  t.after(() => client.socket.disconnect())
  return client
}

/** The socket of a stock client, and its traffic. */
export class Client {
  /** Every message that arrived, decoded. */
  messages = new Inbox()
  /** Joins that this client sent, by topic. */
  joinsSent = []
  opened = new Inbox()
  closed = new Inbox()
  errors = new Inbox()
  /** Heartbeats to which no reply came in time, so that the client connects again. */
  heartbeatsLost = new Inbox()

  constructor(server, variant, options = {}) {
    const { Socket, LongPoll } = variant.library
    this.variant = variant
    this.socket = new Socket(server.endpoint, {
      transport: variant.isPoll ? LongPoll : CloseRecordingWebSocket,
      ...shortDelays(variant.library),
      ...variant.options,
      logger: (kind, text) => this.#log(kind, text),
      ...options,
    })
    this.socket.onMessage((message) => this.messages.put(message))
    this.socket.onOpen(() => this.opened.put(true))
    this.socket.onClose((event) => this.closed.put(event))
    this.socket.onError((error) => this.errors.put(error))
    this.socket.connect()
  }

  #log(kind, text) {
    const sent = kind === 'push' ? /^(\S+) phx_join/.exec(text) : null
    if (sent) this.joinsSent.push(sent[1])
    if (/^heartbeat timeout/.test(text)) this.heartbeatsLost.put(text)
  }

  /** Joins a topic; returns its channel. */
  async join(topic, params = {}) {
    const channel = this.socket.channel(topic, params)
    const { status, response } = await reply(channel.join(), `${topic} is joined`)
    if (status !== 'ok') throw new Error(`join of ${topic}: ${status} ${JSON.stringify(response)}`)
    return channel
  }

  /** The reply to a join that is expected to fail; the client does not try again. */
  async joinRefused(topic, params = {}) {
    const channel = this.socket.channel(topic, params)
    const answer = await reply(channel.join(), `the join of ${topic} is refused`)
    channel.leave()
    return answer
  }
}

/** The reply to a push or join. */
export function reply(push, what = `a reply to ${push.event}`, ms = SOON_MS) {
  const answer = new Promise((resolve) => {
    for (const status of ['ok', 'error', 'timeout']) {
      push.receive(status, (response) => resolve({ status, response }))
    }
  })
  return withTimeout(answer, what, ms)
}

/** Collects the messages of one event on a channel. */
export function collectEvents(channel, event) {
  const inbox = new Inbox()
  channel.on(event, inbox.put)
  return inbox
}

/** Collects the calls of one of the channel's hooks (`onError`, `onClose`). */
export function collectHook(channel, hook) {
  const inbox = new Inbox()
  channel[hook]((reason) => inbox.put(reason ?? hook))
  return inbox
}

let topics = 0

/** A topic that no other test uses. */
export function freshTopic(prefix = 'rooms') {
  return `${prefix}:${++topics}`
}
