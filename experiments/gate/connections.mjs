// Plain connections to a server that is counted. They do as little as possible.

import { once } from 'node:events'
import { connect } from 'node:net'

const DEADLINE_MS = 30_000

/** A connection, and what arrived on it since the last `waitFor`. */
class Client {
  constructor(socket) {
    this.socket = socket
    this.text = ''
    this.changed = () => {}
    socket.on('error', () => {})
    socket.on('close', () => this.changed())
    socket.on('data', (bytes) => {
      this.text += bytes.toString('latin1')
      this.changed()
    })
  }

  /** Waits for `text`, and returns everything that arrived up to its end. */
  waitFor(text) {
    return new Promise((resolve, reject) => {
      const fail = (why) => {
        clearTimeout(timer)
        this.changed = () => {}
        reject(new Error(`no ${text} ${why}, but ${JSON.stringify(this.text)}`))
      }
      const timer = setTimeout(fail, DEADLINE_MS, `within ${DEADLINE_MS} ms`)
      this.changed = () => {
        const at = this.text.indexOf(text)
        if (at < 0) return this.socket.closed ? fail('before the connection ended') : undefined
        clearTimeout(timer)
        this.changed = () => {}
        const before = this.text.slice(0, at + text.length)
        this.text = this.text.slice(at + text.length)
        resolve(before)
      }
      this.changed()
    })
  }
}

/** @param {number} port */
export async function open(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  return new Client(socket)
}

/**
 * A request. One with a body is a POST.
 *
 * @param {number} port
 * @param {string} target
 * @param {string[]} [headers]
 * @param {string} [body]
 */
export function request(port, target, headers = [], body) {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  const method = body === undefined ? 'GET' : 'POST'
  return [`${method} ${target} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers, ...length, '', body ?? ''].join('\r\n')
}
