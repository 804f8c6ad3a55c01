// @vitest-environment happy-dom
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { connect } from './connection.ts'

it('a connection that is lost while its page is hidden is made again', async () => {
  Object.defineProperty(document, 'visibilityState', { value: 'hidden' })
  const listener = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await new Promise((resolve) => listener.once('listening', resolve))
  const endPoint = `ws://127.0.0.1:${(listener.address() as AddressInfo).port}/socket`
  const next = () => new Promise<WebSocket>((resolve) => listener.once('connection', resolve))
  const first = next()
  const connection = connect(endPoint, { transport: WebSocket, random: () => 0, fetch: () => Promise.reject(new Error('no')) })
  try {
    for (let socket = await first, times = 0; times < 3; times++) {
      const again = next()
      socket.terminate()
      socket = await again
    }
  } finally {
    connection.close()
    for (const socket of listener.clients) socket.terminate()
    listener.close()
  }
  expect(document.visibilityState).toBe('hidden')
})
