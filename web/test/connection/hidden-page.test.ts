// @vitest-environment happy-dom
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { connect, type Connection } from '@watchfire/client/connection'

let listener: WebSocketServer
let connection: Connection
let visibility: string
/** The sockets of the server, in the order of their connections. */
let next: () => Promise<WebSocket>

beforeEach(async () => {
  visibility = 'hidden'
  Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => visibility })
  listener = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await new Promise((resolve) => listener.once('listening', resolve))
  next = () => new Promise((resolve) => listener.once('connection', resolve))
  const endPoint = `ws://127.0.0.1:${(listener.address() as AddressInfo).port}/socket`
  connection = connect(endPoint, { transport: WebSocket, random: () => 0, verifyMs: 20, fetch: () => Promise.reject(new Error('no')) })
})
afterEach(() => {
  connection.close()
  for (const socket of listener.clients) socket.terminate()
  listener.close()
})

describe('a connection of a hidden page', () => {
  it('is made again when it is lost', async () => {
    for (let socket = await next(), times = 0; times < 3; times++) {
      const again = next()
      socket.terminate()
      socket = await again
    }
    expect(document.visibilityState).toBe('hidden')
  })

  it.each([
    ['the browser lets the page run again', () => document.dispatchEvent(new Event('resume'))],
    ['the device has a network again', () => dispatchEvent(new Event('online'))],
    [
      'the page is shown',
      () => {
        visibility = 'visible'
        document.dispatchEvent(new Event('visibilitychange'))
      },
    ],
  ])('is replaced when %s and the server does not answer', async (_, wake) => {
    await next()
    await new Promise<void>((resolve) => connection.subscribe((state) => state === 'open' && resolve()))
    const states: string[] = []
    connection.subscribe((state) => states.push(state))
    const again = next()
    // This server never answers.
    wake()
    await again
    expect(states[0]).toBe('offline')
  })
})

describe('a connection of a page that is left', () => {
  it('ends, and is made again when the browser shows the page from its cache', async () => {
    const socket = await next()
    dispatchEvent(new Event('pageshow'))
    const isClosed = new Promise((resolve) => socket.once('close', resolve))
    dispatchEvent(new Event('pagehide'))
    await isClosed
    expect(connection.state).toBe('offline')
    const again = next()
    dispatchEvent(new Event('pageshow'))
    await again
    expect(listener.clients.size).toBe(1)
  })

  it('stays closed when it was closed before', async () => {
    await next()
    connection.close()
    dispatchEvent(new Event('pagehide'))
    dispatchEvent(new Event('pageshow'))
    document.dispatchEvent(new Event('resume'))
    expect(connection.state).toBe('offline')
  })
})
