// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import './index.ts'

const CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'
const OTHER_CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'

/** Sockets that open only when a test says so. */
let sockets: { isClosed: boolean; readyState: number; onopen?: () => void; onclose?: () => void; sent: string[] }[]
beforeEach(() => {
  sockets = []
  class SilentSocket {
    isClosed = false
    readyState = 0
    readonly sent: string[] = []
    constructor() {
      sockets.push(this)
    }
    send(message: string) {
      this.sent.push(message)
    }
    close() {
      this.isClosed = true
    }
  }
  vi.stubGlobal('WebSocket', SilentSocket)
  vi.stubGlobal('fetch', () => Promise.resolve(new Response('{}')))
})
afterEach(() => {
  document.body.replaceChildren()
  vi.unstubAllGlobals()
})

const elementOf = (attributes: Record<string, string>) => {
  const element = document.createElement('watch-fire')
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  return element
}
const isConnected = () => sockets.some(({ isClosed }) => !isClosed)

it('leaves the page of a removed element, and its status says so', async () => {
  const element = elementOf({ cid: CID, server: 'https://example.org' })
  document.body.append(element)
  expect(isConnected()).toBe(true)
  await vi.waitUntil(() => element.state !== null)
  sockets[0]?.onclose?.()
  expect(element.problem).toBe('The server example.org does not answer. It is tried again.')
  const statuses: string[] = []
  element.addEventListener('statuschange', () => statuses.push(element.status))
  element.remove()
  expect(isConnected()).toBe(false)
  expect([element.status, element.problem, element.state]).toEqual(['waiting', null, null])
  expect(statuses).toEqual(['waiting'])
})

it('opens no page for an element that its own listener removes', () => {
  const element = elementOf({ cid: CID, server: 'ftp://example.org' })
  document.body.append(element)
  expect(element.status).toBe('failed')
  element.addEventListener('statuschange', () => element.remove())
  element.setAttribute('server', 'https://example.org')
  expect(isConnected()).toBe(false)
})

it('opens one page for an element whose listener changes an attribute', () => {
  const element = elementOf({ cid: CID, server: 'ftp://example.org' })
  document.body.append(element)
  element.addEventListener('statuschange', () => element.setAttribute('cid', OTHER_CID), { once: true })
  element.setAttribute('server', 'https://example.org')
  element.remove()
  expect(isConnected()).toBe(false)
})

it('names an invalid CID without a connection', () => {
  const element = elementOf({ cid: 'none', server: 'https://example.org' })
  document.body.append(element)
  expect(element.status).toBe('failed')
  expect(element.problem).toContain('is not a CID')
  expect(sockets).toEqual([])
  element.setAttribute('cid', CID)
  expect([element.status, element.problem]).toEqual(['waiting', null])
  expect(isConnected()).toBe(true)
})

it('opens the page of a server that never tells its limits', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const ends: (() => void)[] = []
  vi.stubGlobal('AbortSignal', { ...AbortSignal, any: AbortSignal.any, timeout: () => timeoutSignal(ends) })
  vi.stubGlobal('fetch', (_: string, { signal }: { signal: AbortSignal }) => {
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  const element = elementOf({ cid: CID, server: 'https://silent.example.org' })
  document.body.append(element)
  expect(element.state).toBeNull()
  for (const end of ends) end()
  vi.useRealTimers()
  await vi.waitUntil(() => element.state !== null)
})

function timeoutSignal(ends: (() => void)[]): AbortSignal {
  const controller = new AbortController()
  ends.push(() => controller.abort(new DOMException('late', 'TimeoutError')))
  return controller.signal
}

it('has one membership in the topic of a page for all elements that show it, until the last is removed', async () => {
  const elements = Array.from({ length: 3 }, () => elementOf({ cid: CID, server: 'https://two.example.org' }))
  document.body.append(...elements)
  await vi.waitUntil(() => elements.every(({ state }) => state !== null))
  const [socket] = sockets
  if (socket === undefined) throw new Error('no socket')
  socket.readyState = 1
  socket.onopen?.()
  const joins = () => socket.sent.filter((message) => message.includes('phx_join')).length
  const leaves = () => socket.sent.filter((message) => message.includes('phx_leave')).length
  expect([sockets.length, joins(), leaves()]).toEqual([1, 1, 0])
  for (const element of elements.slice(1)) element.remove()
  expect([leaves(), socket.isClosed]).toEqual([0, false])
  elements[0]?.remove()
  expect([leaves(), socket.isClosed]).toEqual([1, true])
})
