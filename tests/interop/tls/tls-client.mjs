// A TLS client that reports what the server presents, and plain HTTP requests.

import assert from 'node:assert/strict'
import net from 'node:net'
import tls from 'node:tls'

import { SOON_MS, waitUntil, withTimeout } from '../lib/deadlines.mjs'

/**
 * One handshake: the server's certificate, and whether the client trusts it; rejects if the handshake fails.
 * @param {tls.ConnectionOptions} [options]
 */
export async function handshake(port, servername, options) {
  const socket = tls.connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false, ...options })
  const result = new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
    socket.once('secureConnect', () => {
      const { fingerprint256, subjectaltname, valid_to: end } = socket.getPeerCertificate()
      resolve({ fingerprint: fingerprint256, names: subjectaltname, end: Date.parse(end), isTrusted: socket.authorized })
    })
  })
  try {
    return await withTimeout(result, 'a handshake')
  } finally {
    socket.destroy()
  }
}

/**
 * Waits until each of several connections gets a trusted certificate that `accept` accepts; returns the last.
 * @param {(certificate: any) => boolean} [accept]
 */
export function waitForCertificate(port, servername, options, accept = () => true, ms = 4 * SOON_MS) {
  const check = async () => {
    let last
    for (let time = 0; time < 8; time++) {
      last = await handshake(port, servername, options).catch(() => undefined)
      if (!last?.isTrusted || !accept(last)) return undefined
    }
    return last
  }
  return waitUntil(check, `a certificate for ${servername}`, ms)
}

/** Sends bytes over plain TCP; the response as text once the server has closed. */
export async function exchange(port, bytes) {
  const socket = net.connect({ host: '127.0.0.1', port })
  let text = ''
  const closed = new Promise((resolve, reject) => {
    socket.setEncoding('utf8').on('data', (part) => (text += part))
    socket.once('error', reject).once('close', resolve)
  })
  socket.write(bytes)
  try {
    await withTimeout(closed, 'the server closes the connection')
  } finally {
    socket.destroy()
  }
  return text
}

/** A GET over plain HTTP: its status, headers and body. */
export async function get(port, host, target) {
  const response = await exchange(port, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  const [head, body] = response.split('\r\n\r\n')
  const [status, ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(lines.map((line) => line.split(': ')))
  const code = Number(/^HTTP\/1\.1 (\d+)/.exec(status)?.[1])
  assert.ok(code, response)
  return { status: code, headers, body }
}
