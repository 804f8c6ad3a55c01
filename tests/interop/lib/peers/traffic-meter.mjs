// Counts the traffic of one simulated peer by path, at the interfaces that the web client takes as arguments.

import { NodeConnection } from './node-connection.mjs'

/** Longer messages carry blocks; wants and presences fit into shorter ones. */
const CONTENT_BYTES_MIN = 65_536

export class TrafficMeter {
  #decode
  /** Open connections, and the totals of closed ones. */
  #lines = new Set()
  #past = { sentBytes: 0, receivedBytes: 0 }
  #linesMost = 0
  #waysMade = 0
  /** The direct path to each peer, as the client has it. */
  #ways = new Map()
  /** Messages by relay, with the bytes of each that were pushed to the server. */
  #relaying = new Map()
  #relayed = { contentBytes: 0, wordBytes: 0, contentBytesWhileDirect: 0 }

  constructor(decodeRelayFrame) {
    this.#decode = decodeRelayFrame
  }

  /** The same connection, with its relay pushes counted. */
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

  /** The direct connections of one tab, counted. */
  directConnections(make) {
    const inner = make((configuration) => this.#line(configuration))
    return async () => (deps) => inner({
      ...deps,
      onUp: (peer, path) => {
        this.#ways.set(peer, path)
        this.#waysMade++
        deps.onUp(peer, path)
      },
    })
  }

  report() {
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
    const line = new NodeConnection(configuration)
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
    // A message that started before the direct path was up finishes by relay.
    if (message === undefined) {
      message = { isDirect: this.#ways.get(to)?.isUp === true, offsets: new Set() }
      this.#relaying.set(key, message)
    }
    // A push that the server rejected is sent again.
    if (message.offsets.has(segment.offset)) return
    message.offsets.add(segment.offset)
    const { length } = segment.bytes
    if (!isContent) this.#relayed.wordBytes += length
    else this.#relayed.contentBytes += length
    if (isContent && message.isDirect) this.#relayed.contentBytesWhileDirect += length
  }
}
