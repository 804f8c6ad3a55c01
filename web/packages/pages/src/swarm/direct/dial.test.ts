import { afterEach, describe, expect, it, vi } from 'vitest'
import { dial, isLocal } from './dial.ts'

const offer = { call: 1, addresses: ['10.0.0.1:4433', '192.0.2.1:4433'], certificate: '0f'.repeat(32), secret: 'a0'.repeat(16) }

/** A session that is accepted or refused when the test says so. */
class FakeSession {
  static made: FakeSession[] = []
  isClosed = false
  readonly ready: Promise<void>
  readonly closed: Promise<void>
  readonly incomingBidirectionalStreams: ReadableStream
  accept = () => {}
  refuse = () => {}
  lose = () => {}

  readonly url: string
  readonly options: WebTransportOptions

  constructor(url: string, options: WebTransportOptions) {
    this.url = url
    this.options = options
    this.ready = new Promise((resolve, reject) => {
      this.accept = resolve
      this.refuse = () => reject(new Error('refused'))
    })
    this.closed = new Promise((_resolve, reject) => {
      this.lose = () => reject(new Error('lost'))
    })
    this.incomingBidirectionalStreams = new ReadableStream({
      start: (controller) => controller.enqueue({ readable: new ReadableStream(), writable: new WritableStream() }),
    })
    FakeSession.made.push(this)
  }

  close(): void {
    this.isClosed = true
    this.refuse()
  }
}

/** Dials from a page of this host, in a browser that asks before it connects to the local network, or does not. */
async function dialFrom(hostname: string, permission: PermissionState | null, { count = 2, until = new AbortController() } = {}) {
  FakeSession.made = []
  vi.stubGlobal('WebTransport', FakeSession)
  vi.stubGlobal('location', { hostname })
  const query = () => (permission === null ? Promise.reject(new TypeError()) : Promise.resolve({ state: permission }))
  vi.stubGlobal('navigator', { permissions: { query } })
  const dialled = dial(offer, until.signal)
  await vi.waitFor(() => expect(FakeSession.made).toHaveLength(count))
  return { dialled, made: FakeSession.made }
}
afterEach(() => vi.unstubAllGlobals())

describe('a terminal', () => {
  it('is dialled at the next address only if the first does not answer soon', async () => {
    const { dialled, made } = await dialFrom('localhost', null, { count: 1 })
    made[0]?.accept()
    expect((await dialled)?.readyState).toBe('open')
    expect(made).toHaveLength(1)
  })

  it('is dialled at all of its addresses, and one session is used', async () => {
    const { dialled, made } = await dialFrom('localhost', 'prompt')
    expect(made.map(({ url }) => url)).toEqual(offer.addresses.map((address) => `https://${address}/${offer.secret}`))
    expect(made[0]?.options.serverCertificateHashes).toEqual([{ algorithm: 'sha-256', value: new Uint8Array(32).fill(15) }])
    made[1]?.accept()
    expect((await dialled)?.readyState).toBe('open')
    expect(made.map(({ isClosed }) => isClosed)).toEqual([true, false])
  })

  it('is dialled in the local network only if the browser asks nobody', async () => {
    for (const permission of ['prompt', 'denied'] as const) {
      const { made } = await dialFrom('example.org', permission, { count: 1 })
      expect(made.map(({ url }) => new URL(url).host)).toEqual(['192.0.2.1:4433'])
    }
    for (const permission of ['granted', null] as const) expect((await dialFrom('example.org', permission)).made).toHaveLength(2)
  })

  it('is given up when no session is accepted, or in time', async () => {
    const { dialled, made } = await dialFrom('localhost', null)
    for (const session of made) session.refuse()
    expect(await dialled).toBeNull()
    const until = new AbortController()
    const late = await dialFrom('localhost', null, { until })
    until.abort()
    expect(await late.dialled).toBeNull()
    expect(late.made.every(({ isClosed }) => isClosed)).toBe(true)
  })

  it('is gone when its session is lost', async () => {
    const { dialled, made } = await dialFrom('localhost', null)
    made[0]?.accept()
    const channel = await dialled
    made[0]?.lose()
    await vi.waitFor(() => expect(channel?.readyState).toBe('closed'))
    expect(() => channel?.send(new Uint8Array(1))).toThrow()
  })
})

it('knows the hosts of a local network', () => {
  const local = [
    'localhost',
    'a.localhost',
    '127.0.0.1:1',
    '10.1.2.3:4433',
    '192.168.0.1',
    '172.16.0.1',
    '172.31.0.1',
    '[fd00::1]:9',
    '[fe80::1]',
    '[::1]:1',
  ]
  expect(local.filter((host) => !isLocal(host))).toEqual([])
  const foreign = ['example.org', '192.0.2.1:4433', '172.32.0.1', '11.0.0.1', '[2001:db8::1]:9', 'localhost.example.org']
  expect(foreign.filter(isLocal)).toEqual([])
})
