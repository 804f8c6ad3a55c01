// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import './index.ts'

const CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

/** Sockets that never open. */
let sockets: { isClosed: boolean }[]
beforeEach(() => {
  sockets = []
  class SilentSocket {
    isClosed = false
    constructor() {
      sockets.push(this)
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
  const element = elementOf({ cid: 'none', server: 'https://example.org' })
  document.body.append(element)
  expect(isConnected()).toBe(true)
  await vi.waitUntil(() => element.status === 'failed')
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
  element.addEventListener('statuschange', () => element.setAttribute('cid', 'none'), { once: true })
  element.setAttribute('server', 'https://example.org')
  element.remove()
  expect(isConnected()).toBe(false)
})
