import { beforeEach, describe, expect, it } from 'vitest'
import { defaultLimits } from '../limits/index.ts'
import { pattern } from '../../test/pattern.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { FakeServer, type FakeConnection } from '../../test/fake-server.ts'
import { openPage, publish, type Publication } from './index.ts'
import { traceLoad } from './load-trace.ts'

const CONTEXT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/

let clock: FakeClock
let server: FakeServer
beforeEach(() => {
  clock = new FakeClock()
  server = new FakeServer(clock)
})

let seed = 0
function open(root: string, traceSample: number, publication?: Publication) {
  const line: FakeConnection = server.connect()
  const random = () => (seed = (seed + 0.381) % 1)
  const deps = { connection: line, limits: { ...defaultLimits, traceSample }, clock, random, trace: traceLoad }
  return openPage(root, publication ? { ...deps, publication } : deps)
}

const read = (bytes: Uint8Array) => new TextDecoder('latin1').decode(bytes)

describe('the trace of a load', () => {
  it('is sent with the join and with the first requests to a peer, and reported once', async () => {
    const published = await publish([{ path: 'film.bin', blob: new Blob([pattern(2_500_000)]) }])
    open(published.root, 1, published)
    const requests: string[] = []
    server.refuseRelay = (_from, _to, data) => {
      requests.push(...(read(data).match(/00-[0-9a-f]{32}-[0-9a-f]{16}-01/g) ?? []))
      return null
    }
    const session = open(published.root, 1)
    await clock.until(() => session.state.phase === 'complete')
    await clock.until(() => server.reports.length > 0)
    session.close()

    expect(server.reports).toHaveLength(1)
    const report = server.reports[0] as { traceparent: string; took_ms: number; spans: Record<string, unknown>[] }
    expect(report.traceparent).toMatch(CONTEXT)
    const trace = report.traceparent.slice(3, 35)
    const [join, introduce, blocks] = ['join', 'introduce', 'blocks from peer'].map((name) =>
      report.spans.find((span) => span['name'] === name),
    )
    // The publisher's own load is not traced.
    expect(server.traceparents).toEqual([`00-${trace}-${String(join?.['id'])}-01`])
    expect(requests).toEqual([`00-${trace}-${String(blocks?.['id'])}-01`])
    expect(join).toMatchObject({ start_ms: 0, peers: 1 })
    expect(introduce).toMatchObject({ took_ms: 0 })
    expect(blocks).toMatchObject({ blocks: 4, peer: server.members[0]?.id })
    expect(Number(blocks?.['bytes'])).toBeGreaterThanOrEqual(2_500_000)
    for (const span of report.spans) {
      expect(span['id']).toMatch(/^[0-9a-f]{16}$/)
      expect(Number(span['start_ms']) + Number(span['took_ms'])).toBeLessThanOrEqual(report.took_ms + 0.001)
    }
  })

  it('does not exist when the server records none', async () => {
    const published = await publish([{ path: 'film.bin', blob: new Blob([pattern(100_000)]) }])
    open(published.root, 0, published)
    const session = open(published.root, 0)
    await clock.until(() => session.state.phase === 'complete')
    expect([server.reports, server.traceparents]).toEqual([[], []])
    expect(traceLoad(0.5, clock, () => 0.6)).toBeNull()
    expect(traceLoad(0.5, clock, () => 0.4)).not.toBeNull()
  })

  it('has a bounded report', () => {
    const trace = traceLoad(1, clock, Math.random)
    const wants = [{ cid: null, cancel: false }] as never
    for (let n = 0; n < 1000; n++) trace?.placeFor(String(n) as never, { full: false, wants, presences: [], pendingBytes: 0 })
    const report = trace?.report() as { spans: unknown[] }
    expect(report.spans).toHaveLength(64)
    expect(trace?.report()).toBeNull()
  })
})
