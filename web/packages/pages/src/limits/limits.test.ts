import { describe, expect, it, vi } from 'vitest'
import { defaultLimits, fetchLimits, parseLimits } from './index.ts'

const body = {
  limits: {
    page_bytes_max: { value: 1000, unit: 'bytes', when_reached: 'The page is refused.' },
    relay_frame_bytes_max: { value: -1, unit: 'bytes', when_reached: '' },
    blocks_in_flight_max: { value: 'many' },
    something_new: { value: 7, unit: 'things', when_reached: 'They wait.' },
  },
}

describe('the limits of a server', () => {
  it('say which share of page loads is traced', () => {
    const share = (traces: unknown) => parseLimits({ traces }).traceSample
    expect([share({ sample: 0.01 }), share({ sample: 7 })]).toEqual([0.01, 1])
    for (const traces of [undefined, null, true, {}, { sample: '1' }, { sample: -1 }, { sample: NaN }]) expect(share(traces)).toBe(0)
  })

  it('are parsed, and all kept for display', () => {
    const limits = parseLimits(body)
    expect(limits.pageBytesMax).toBe(1000)
    expect(limits.all.get('something_new')).toEqual({ value: 7, unit: 'things', whenReached: 'They wait.' })
  })

  it('that are not valid keep the defaults', () => {
    const limits = parseLimits(body)
    expect(limits.relayFrameBytesMax).toBe(defaultLimits.relayFrameBytesMax)
    expect(limits.blocksInFlightMax).toBe(defaultLimits.blocksInFlightMax)
    for (const body of [null, 3, 'x', [], { limits: null }, { limits: { page_bytes_max: null } }]) {
      expect(parseLimits(body)).toEqual(defaultLimits)
    }
  })

  it('contain the address for reports, if it is a safe link', () => {
    for (const report of ['https://example.org/report?page={cid}', 'mailto:abuse@example.org']) {
      expect(parseLimits({ ...body, report }).report).toBe(report)
    }
    for (const report of ['javascript:alert(1)', 'data:text/html,x', '', null, 3]) {
      expect(parseLimits({ ...body, report }).report).toBe(null)
    }
  })

  it('say whether there are chat rooms', () => {
    expect(parseLimits({ ...body, rooms: true }).rooms).toBe(true)
    for (const rooms of [false, 'true', 1, null, undefined]) expect(parseLimits({ ...body, rooms }).rooms).toBe(false)
  })

  it('are the defaults when the server does not answer', async () => {
    const broken = () => Promise.reject(new TypeError('failed to fetch'))
    expect(await fetchLimits(broken)).toEqual(defaultLimits)
    const missing = () => Promise.resolve(new Response('', { status: 404 }))
    expect(await fetchLimits(missing)).toEqual(defaultLimits)
    const answered = () => Promise.resolve(Response.json(body))
    expect((await fetchLimits(answered)).pageBytesMax).toBe(1000)
  })

  it('are the defaults when the server keeps the connection and sends nothing', async () => {
    const ended = new AbortController()
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(ended.signal)
    const silent = (_: unknown, init?: RequestInit) =>
      new Promise<Response>((_, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal?.reason)))
    const limits = fetchLimits(silent)
    ended.abort(new DOMException('too late', 'TimeoutError'))
    expect(await limits).toEqual(defaultLimits)
    expect(timeout).toHaveBeenCalledWith(10_000)
    timeout.mockRestore()
  })

  it('are not awaited after an abort', async () => {
    const aborted = (_: unknown, init?: RequestInit) => Promise.reject(init?.signal?.reason)
    await expect(fetchLimits(aborted, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i)
  })
})
