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
/** An element that is not connected again by then has been removed, and not moved. */
const removed = () => Promise.resolve()
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
  await removed()
  expect(isConnected()).toBe(false)
  expect([element.status, element.problem, element.state]).toEqual(['waiting', null, null])
  expect(statuses).toEqual(['waiting'])
})

it('keeps its page when it is moved, and when an attribute is set to the value that it has', async () => {
  const element = elementOf({ cid: CID, server: 'https://moved.example.org' })
  const [first, second] = [document.createElement('div'), document.createElement('div')]
  document.body.append(first, second)
  first.append(element)
  await vi.waitUntil(() => element.state !== null)
  const statuses: string[] = []
  element.addEventListener('statuschange', () => statuses.push(element.status))
  second.append(element)
  element.setAttribute('cid', CID)
  element.remove()
  first.append(element)
  await removed()
  expect([sockets.length, isConnected(), element.state !== null, statuses]).toEqual([1, true, true, []])
  // The next page is the one that its attributes name when it is connected again.
  element.remove()
  element.setAttribute('cid', 'none')
  second.append(element)
  await removed()
  expect([element.status, isConnected()]).toEqual(['failed', false])
  element.setAttribute('cid', CID)
  element.remove()
  await removed()
  expect(isConnected()).toBe(false)
})

it('has a second name for the attribute that React and Vue keep for themselves', async () => {
  const element = elementOf({ cid: CID, server: 'https://keys.example.org' })
  document.body.append(element)
  await vi.waitUntil(() => element.state !== null)
  element.setAttribute('page-key', 'x'.repeat(43))
  expect(element.state).toBeNull()
  await vi.waitUntil(() => element.state !== null)
  element.setAttribute('key', 'y'.repeat(43))
  expect(element.state).toBeNull()
})

it('opens no page for an element that its own listener removes', () => {
  const element = elementOf({ cid: CID, server: 'ftp://example.org' })
  document.body.append(element)
  expect(element.status).toBe('failed')
  element.addEventListener('statuschange', () => element.remove())
  element.setAttribute('server', 'https://example.org')
  expect(isConnected()).toBe(false)
})

it('opens one page for an element whose listener changes an attribute', async () => {
  const element = elementOf({ cid: CID, server: 'ftp://example.org' })
  document.body.append(element)
  element.addEventListener('statuschange', () => element.setAttribute('cid', OTHER_CID), { once: true })
  element.setAttribute('server', 'https://example.org')
  element.remove()
  await removed()
  expect(isConnected()).toBe(false)
})

it('takes a host without a scheme for no address of a server', () => {
  const element = elementOf({ cid: CID, server: 'watchfire.example.org' })
  document.body.append(element)
  expect([element.status, element.problem]).toEqual(['failed', '"watchfire.example.org" is not the address of a server.'])
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
  await vi.waitUntil(() => ends.length > 0)
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
  await removed()
  expect([leaves(), socket.isClosed]).toEqual([0, false])
  elements[0]?.remove()
  await removed()
  expect([leaves(), socket.isClosed]).toEqual([1, true])
})
