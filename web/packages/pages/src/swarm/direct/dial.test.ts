import { afterEach, describe, expect, it, vi } from 'vitest'
import { dial } from './dial.ts'

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

/** Dials from a page of this host, in a browser that has these permissions, or one of all local addresses, or none. */
async function dialFrom(
  hostname: string,
  permission: PermissionState | null | { readonly [name: string]: PermissionState },
  { count = 2, until = new AbortController(), addresses = offer.addresses } = {},
) {
  FakeSession.made = []
  vi.stubGlobal('WebTransport', FakeSession)
  vi.stubGlobal('location', { hostname })
  vi.stubGlobal('document', new EventTarget())
  const states = typeof permission === 'string' ? { 'local-network-access': permission } : (permission ?? {})
  const query = ({ name }: { name: string }) => {
    const state = (states as { [name: string]: PermissionState | undefined })[name]
    return state === undefined ? Promise.reject(new TypeError()) : Promise.resolve({ state })
  }
  vi.stubGlobal('navigator', { permissions: { query } })
  const dialled = dial({ ...offer, addresses }, until.signal)
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

  it('is dialled at a name, which can stand for a local address, only if the browser asks nobody', async () => {
    const addresses = ['terminal.example.org:4433', '192.0.2.1:4433']
    const { made } = await dialFrom('example.org', 'prompt', { count: 1, addresses })
    expect(made.map(({ url }) => new URL(url).host)).toEqual(['192.0.2.1:4433'])
    for (const permission of ['granted', null] as const) {
      expect((await dialFrom('example.org', permission, { addresses })).made).toHaveLength(2)
    }
  })

  it('is dialled on the machine itself only if the browser asks for nothing', async () => {
    const addresses = ['127.0.0.1:4433', '192.168.0.2:4433']
    const permissions = { 'local-network': 'granted', 'loopback-network': 'prompt' } as const
    const { made } = await dialFrom('example.org', permissions, { count: 1, addresses })
    expect(made.map(({ url }) => new URL(url).host)).toEqual(['192.168.0.2:4433'])
    const inside = await dialFrom('192.168.0.1', permissions, { count: 1, addresses })
    expect(inside.made.map(({ url }) => new URL(url).host)).toEqual(['192.168.0.2:4433'])
    expect((await dialFrom('localhost', permissions, { addresses })).made).toHaveLength(2)
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

  it('is not dialled any more on a site whose policy forbids it', async () => {
    const { dialled, made } = await dialFrom('localhost', null, { count: 1 })
    made[0]?.refuse()
    const violation = { effectiveDirective: 'connect-src', blockedURI: made[0]?.url }
    document.dispatchEvent(Object.assign(new Event('securitypolicyviolation'), violation))
    expect(await dialled).toBeNull()
    await expect(dial(offer, new AbortController().signal)).resolves.toBeNull()
    expect(made).toHaveLength(1)
  })
})
