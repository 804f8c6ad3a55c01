// What one simulated peer sent, and which way: looked at where the web client takes its connections from outside.

import { NodeLine } from './line.mjs'

/** Longer messages carry content; who wants what, and who has it, is said in shorter ones. */
const CONTENT_BYTES_MIN = 65_536

export class Meter {
  #decode
  /** Connections that are open, and what those that are closed had carried. */
  #lines = new Set()
  #past = { sentBytes: 0, receivedBytes: 0 }
  #linesMost = 0
  #waysMade = 0
  /** The direct way to each peer, as the client has it. */
  #ways = new Map()
  /** Messages by relay, with what the server was given of each. */
  #relaying = new Map()
  #relayed = { contentBytes: 0, wordBytes: 0, contentBytesWhileDirect: 0 }

  constructor(decodeRelayFrame) {
    this.#decode = decodeRelayFrame
  }

  /** The same connection, of which what is pushed by relay is counted. */
  connection(inner) {
    const join = (topic, names, events) => {
      const joined = inner.join(topic, names, events)
      const push = (event, payload) => {
        if (event === 'relay') this.#relays(payload)
        return joined.push(event, payload)
      }
      return { isJoined: joined.isJoined, push, leave: joined.leave }
    }
    return { join, close: inner.close, subscribe: inner.subscribe, get state() { return inner.state } }
  }

  /** Direct ways of one tab, whose connections are counted. */
  switchboards(make) {
    const inner = make((configuration) => this.#line(configuration))
    return async () => (deps) => inner({
      ...deps,
      up: (peer, way) => {
        this.#ways.set(peer, way)
        this.#waysMade++
        deps.up(peer, way)
      },
    })
  }

  tell() {
    let { sentBytes, receivedBytes } = this.#past
    for (const line of this.#lines) {
      sentBytes += line.sentBytes
      receivedBytes += line.receivedBytes
    }
    const { contentBytes, wordBytes, contentBytesWhileDirect } = this.#relayed
    return {
      sentBytes, receivedBytes, relayedBytes: contentBytes, relayedWordBytes: wordBytes, relayedWhileDirect: contentBytesWhileDirect,
      lines: this.#lines.size, linesMost: this.#linesMost, waysMade: this.#waysMade,
    }
  }

  #line(configuration) {
    const line = new NodeLine(configuration)
    this.#lines.add(line)
    this.#linesMost = Math.max(this.#linesMost, this.#lines.size)
    const close = line.close.bind(line)
    line.close = () => {
      close()
      if (!this.#lines.delete(line)) return
      this.#past.sentBytes += line.sentBytes
      this.#past.receivedBytes += line.receivedBytes
    }
    return line
  }

  #relays(frame) {
    const { from: to, segment } = this.#decode(frame.buffer.slice(frame.byteOffset, frame.byteOffset + frame.byteLength))
    const isContent = segment.total >= CONTENT_BYTES_MIN
    const key = `${to}/${segment.message}`
    let message = this.#relaying.get(key)
    // What is begun before a direct way is up ends by relay.
    if (message === undefined) {
      message = { isDirect: this.#ways.get(to)?.isUp === true, offsets: new Set() }
      this.#relaying.set(key, message)
    }
    // What the server refused comes again.
    if (message.offsets.has(segment.offset)) return
    message.offsets.add(segment.offset)
    const { length } = segment.bytes
    if (!isContent) this.#relayed.wordBytes += length
    else this.#relayed.contentBytes += length
    if (isContent && message.isDirect) this.#relayed.contentBytesWhileDirect += length
  }
}
