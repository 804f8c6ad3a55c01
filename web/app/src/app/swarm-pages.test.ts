import { describe, expect, it } from 'vitest'
import type { Connection } from '@watchfire/client/connection'
import { defaultLimits } from '@watchfire/pages/limits'
import { textEntry } from '../live/entries.ts'
import { share } from './swarm-pages.ts'

function world(pageBytesMax: number) {
  const joined: string[] = []
  const left: string[] = []
  const connection: Connection = {
    state: 'open',
    subscribe: () => () => undefined,
    join(name) {
      joined.push(name)
      return { isJoined: () => true, push: () => Promise.resolve({ status: 'offline' }), leave: () => void left.push(name) }
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
  return { joined, left, stop, begin }
}

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
