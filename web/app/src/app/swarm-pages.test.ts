import { describe, expect, it, vi } from 'vitest'
import type { Connection } from '@watchfire/client/connection'
import { defaultLimits } from '@watchfire/pages/limits'
import { loadDialling, openPage } from '@watchfire/pages/swarm'
import { textEntry } from '../live/entries.ts'
import { hideAddress } from '../ui/hidden-address.ts'
import { noteServers } from '../ui/other-servers.ts'
import { open, share } from './swarm-pages.ts'

vi.mock('@watchfire/pages/swarm', async (load) => {
  const swarm = await load<typeof import('@watchfire/pages/swarm')>()
  return { ...swarm, loadDialling: vi.fn(), openPage: vi.fn(swarm.openPage) }
})

function world(pageBytesMax: number) {
  const joined: string[] = []
  const left: string[] = []
  const connection: Connection = {
    state: 'open',
    subscribe: () => () => undefined,
    join(name) {
      joined.push(name)
      return { isJoined: () => false, push: () => Promise.resolve({ status: 'offline' }), leave: () => void left.push(name) }
    },
    verify: () => Promise.resolve(),
    connect: () => connection,
    close: () => undefined,
  }
  const stop = new AbortController()
  const begin = (text: string) => {
    const live = { title: 'Harbour log', entries: [textEntry(text, null)] }
    const deps = { connection, limits: { ...defaultLimits, pageBytesMax } }
    return share([], { signal: stop.signal, onProgress: () => undefined, live }, deps)
  }
  return { connection, joined, left, stop, begin }
}

describe('a page that is opened', () => {
  const CID = 'bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u'
  const NEIGHBOUR = 'https://b.example'
  const SILENT = 'https://d.example'
  const neighbours = [
    { server: NEIGHBOUR, state: 'answers' },
    { server: SILENT, state: 'silent' },
  ]
  const limits = { ...defaultLimits, neighbours }
  const opened = () => {
    const { connection } = world(20_000)
    open(CID, Infinity, null, { connection, limits }).close()
    return { connection, deps: vi.mocked(openPage).mock.lastCall?.[1] }
  }

  it('is looked for at the neighbours that answer, at those in its link first, and at no other server', () => {
    vi.stubGlobal('location', new URL('https://a.example'))
    expect(opened().deps?.at?.(() => {})).toEqual([NEIGHBOUR])
    noteServers(CID, `#at=https://c.example&at=${SILENT}`)
    expect(opened().deps?.at?.(() => {})).toEqual([SILENT, NEIGHBOUR])
  })

  it('has direct connections, unless this browser hides its address', () => {
    const before = opened()
    expect([before.deps?.connection, before.deps?.direct]).toEqual([before.connection, loadDialling])
    hideAddress(true)
    const { connection, deps } = opened()
    expect(deps?.direct).toBeNull()
    expect(deps?.connection).not.toBe(connection)
    hideAddress(false)
    expect(opened().deps?.direct).toBe(loadDialling)
  })
})

describe('a live page', () => {
  it('is open once it has its first entries', async () => {
    const { joined, left, begin } = world(20_000)
    const { page } = await begin('Fog')
    expect(page.live()?.entries).toHaveLength(1)
    expect([joined.length, left]).toEqual([1, []])
    page.close()
  })

  it('is closed if one of its first entries cannot be added', async () => {
    const { joined, left, begin } = world(20_000)
    await expect(begin('Fog'.repeat(6000))).rejects.toThrow()
    expect(joined).toHaveLength(1)
    expect(left).toEqual(joined)
  })

  it('is closed if its publisher stops before its first entries are added', async () => {
    const { joined, left, stop, begin } = world(20_000)
    stop.abort()
    await expect(begin('Fog')).rejects.toThrow()
    expect(left).toEqual(joined)
  })
})
