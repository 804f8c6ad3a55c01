// Counts the traffic of one simulated peer by path, at the interfaces that the web client takes as arguments.

import { NodeConnection } from './node-connection.mjs'

/** Longer messages carry blocks; wants and presences fit into shorter ones. */
const CONTENT_BYTES_MIN = 65_536

export class TrafficMeter {
  #decode
  /** Open connections, and the totals of closed ones. */
  #connections = new Set()
  #past = { sentBytes: 0, receivedBytes: 0 }
  #connectionsMax = 0
  #directConnectionsMade = 0
  /** The direct path to each peer, as the client has it. */
  #directPaths = new Map()
  /** Messages by relay, with the bytes of each that were pushed to the server. */
  #relaying = new Map()
  #relayed = { contentBytes: 0, controlBytes: 0, contentBytesWhileDirect: 0 }

  constructor(decodeRelayFrame) {
    this.#decode = decodeRelayFrame
  }

  /** The same connection, with its relay pushes counted. */
  connection(inner) {
    const join = (topic, names, events) => {
      const joined = inner.join(topic, names, events)
      const push = (event, payload) => {
        if (event === 'relay') this.#countRelayed(payload)
        return joined.push(event, payload)
      }
      return { isJoined: () => joined.isJoined(), push, leave: () => joined.leave() }
    }
    return {
      join,
      close: () => inner.close(),
      verify: () => inner.verify(),
      subscribe: (...args) => inner.subscribe(...args),
      get state() {
        return inner.state
      },
    }
  }

  /** The direct connections of one tab, counted. */
  directConnections(make) {
    const inner = make((configuration) => this.#openConnection(configuration))
    return async () => (deps) =>
      inner({
        ...deps,
        onUp: (peer, path) => {
          this.#directPaths.set(peer, path)
          this.#directConnectionsMade++
          deps.onUp(peer, path)
        },
      })
  }

  report() {
    let { sentBytes, receivedBytes } = this.#past
    for (const connection of this.#connections) {
      sentBytes += connection.sentBytes
      receivedBytes += connection.receivedBytes
    }
    const { contentBytes, controlBytes, contentBytesWhileDirect } = this.#relayed
    return {
      sentBytes,
      receivedBytes,
      relayedBytes: contentBytes,
      relayedControlBytes: controlBytes,
      relayedWhileDirect: contentBytesWhileDirect,
      connections: this.#connections.size,
      connectionsMax: this.#connectionsMax,
      directConnectionsMade: this.#directConnectionsMade,
    }
  }

  #openConnection(configuration) {
    const connection = new NodeConnection(configuration)
    this.#connections.add(connection)
    this.#connectionsMax = Math.max(this.#connectionsMax, this.#connections.size)
    const close = connection.close.bind(connection)
    connection.close = () => {
      close()
      if (!this.#connections.delete(connection)) return
      this.#past.sentBytes += connection.sentBytes
      this.#past.receivedBytes += connection.receivedBytes
    }
    return connection
  }

  #countRelayed(frame) {
    const { from: to, segment } = this.#decode(frame.buffer.slice(frame.byteOffset, frame.byteOffset + frame.byteLength))
    const isContent = segment.total >= CONTENT_BYTES_MIN
    const key = `${to}/${segment.message}`
    let message = this.#relaying.get(key)
    // A message that started before the direct path was up finishes by relay.
    if (message === undefined) {
      message = { isDirect: this.#directPaths.get(to)?.isUp === true, offsets: new Set() }
      this.#relaying.set(key, message)
    }
    // A push that the server rejected is sent again.
    if (message.offsets.has(segment.offset)) return
    message.offsets.add(segment.offset)
    const { length } = segment.bytes
    if (!isContent) this.#relayed.controlBytes += length
    else this.#relayed.contentBytes += length
    if (isContent && message.isDirect) this.#relayed.contentBytesWhileDirect += length
  }
}
