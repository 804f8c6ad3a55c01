// A stock Phoenix client on one of the ways it can take to our server.

import { generations } from './generations.mjs'
import { Inbox, within } from './waiting.mjs'
import { WitnessedWebSocket } from './witness.mjs'

const v1 = {
  vsn: '1.0.0',
  encode: (message, callback) => callback(JSON.stringify(message)),
  decode: (text, callback) => callback(JSON.parse(text)),
}

const waysOf = (generation) => [
  { name: 'V2 websocket', serializer: 2, isPoll: false, options: {} },
  ...(generation.choosesVersion ? [{ name: 'V1 websocket', serializer: 1, isPoll: false, options: v1 }] : []),
  { name: 'long poll', serializer: 2, isPoll: true, options: {} },
]

/** Every generation on every transport and serializer that it has. */
export const ways = generations.flatMap((generation) =>
  waysOf(generation).map((way) => ({ ...way, generation, name: `phoenix ${generation.version} over ${way.name}` })),
)

/** The ways for which something is true. */
export const waysWhere = (wanted) => ways.filter(wanted)

/** Delays that let tests end soon; everything else is as published. */
function impatience(generation) {
  const ms = generation.repeatsJoins ? 500 : 10
  return { reconnectAfterMs: () => ms, rejoinAfterMs: () => ms }
}

/** A client that is gone when its test ends. */
export function connect(t, server, way, options = {}) {
  const client = new Client(server, way, options)
  t.after(() => client.socket.disconnect())
  return client
}

/** A stock client's socket, and what went over it. */
export class Client {
  /** Every message that came, decoded. */
  messages = new Inbox()
  /** Joins that this client sent, by topic. */
  joinsSent = []
  opened = new Inbox()
  closed = new Inbox()
  errors = new Inbox()

  constructor(server, way, options = {}) {
    const { Socket, LongPoll } = way.generation
    this.way = way
    this.socket = new Socket(server.endpoint, {
      transport: way.isPoll ? LongPoll : WitnessedWebSocket,
      ...impatience(way.generation),
      ...way.options,
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
  }

  /** The channel, once the server has let it in. */
  async join(topic, params = {}) {
    const channel = this.socket.channel(topic, params)
    const { status, response } = await reply(channel.join(), `${topic} is joined`)
    if (status !== 'ok') throw new Error(`join of ${topic}: ${status} ${JSON.stringify(response)}`)
    return channel
  }

  /** The answer to a join that is expected to fail; the client does not try again. */
  async joinInVain(topic, params = {}) {
    const channel = this.socket.channel(topic, params)
    const answer = await reply(channel.join(), `the join of ${topic} is refused`)
    channel.leave()
    return answer
  }
}

/** How a push or join was answered. */
export function reply(push, what = `an answer to ${push.event}`) {
  const answer = new Promise((resolve) => {
    for (const status of ['ok', 'error', 'timeout']) {
      push.receive(status, (response) => resolve({ status, response }))
    }
  })
  return within(answer, what)
}

/** What comes on a channel under one event. */
export function heard(channel, event) {
  const inbox = new Inbox()
  channel.on(event, inbox.put)
  return inbox
}

/** What one of the channel's own hooks (`onError`, `onClose`) tells. */
export function hooked(channel, hook) {
  const inbox = new Inbox()
  channel[hook]((reason) => inbox.put(reason ?? hook))
  return inbox
}

let topics = 0

/** A topic that no other test uses. */
export function freshTopic(prefix = 'rooms') {
  return `${prefix}:${++topics}`
}
