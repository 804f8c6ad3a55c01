import { afterEach, describe, expect, it, vi } from 'vitest'
import { pattern } from '../../../packages/pages/test/pattern.ts'
import { isSameBytes, type Bytes } from '@watchfire/pages/content'
import { pullStream } from './pull-stream.ts'
import { FileStreams, type OfferedFile, type ServiceWorkers } from './file-streams.ts'
import { parsePullReply, type PullReply, type WorkerCommand } from './protocol.ts'

const BLOCK = 1000
const ports: MessagePort[] = []
afterEach(() => {
  for (const port of ports.splice(0)) port.close()
})

/** The service worker as a tab sees it. */
class FakeServiceWorkers extends EventTarget implements ServiceWorkers {
  readonly commands: WorkerCommand[] = []
  readonly controller = { postMessage: (command: WorkerCommand) => void this.commands.push(command) }
  readonly ready = Promise.resolve({ active: this.controller })
  register = async () => {}

  /** Opens a ticket of the tab; returns the port of the reply, and the first reply. */
  async open(purpose: 'stream' | 'save', ticket: string): Promise<{ port: MessagePort; reply: PullReply | null }> {
    const { port1, port2 } = new MessageChannel()
    ports.push(port1)
    const first = new Promise<PullReply | null>((resolve) => (port1.onmessage = ({ data }) => resolve(parsePullReply(data))))
    this.dispatchEvent(new MessageEvent('message', { data: { streaming: 'open', purpose, ticket }, ports: [port2] }))
    return { port: port1, reply: await first }
  }
}

const whole = pattern(10 * BLOCK + 7)

/** A file that counts how many of its blocks were read. */
function offered(part: Partial<OfferedFile> = {}): OfferedFile & { blocksRead: number } {
  const file = {
    cid: 'bafy',
    name: 'film.webm',
    mime: 'video/webm',
    size: whole.length,
    blocksRead: 0,
    read(from: number, to: number) {
      let at = from
      return new ReadableStream<Bytes>(
        {
          pull(controller) {
            const bytes = whole.slice(at, Math.min(to, at + BLOCK))
            if (bytes.length === 0) return controller.close()
            at += bytes.length
            file.blocksRead++
            controller.enqueue(bytes)
          },
        },
        { highWaterMark: 0 },
      )
    },
    ...part,
  }
  return file
}

const ticketOf = (url: string) => url.split('/')[3] ?? ''
const bytesOf = async (stream: ReadableStream<Uint8Array>) =>
  new Uint8Array(await new Response(stream as ReadableStream<Bytes>).arrayBuffer())
/** Waits until the messages between the ports have been delivered. */
const settled = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('a file that a tab offers', () => {
  it('does not wait for ever for a worker that is never registered', async () => {
    vi.useFakeTimers()
    try {
      const workers = Object.assign(new FakeServiceWorkers(), { controller: null, register: () => new Promise<void>(() => {}) })
      const ready = new FileStreams(workers).ready()
      await vi.advanceTimersByTimeAsync(3000)
      expect(await ready).toBe(false)
    } finally {
      vi.useRealTimers()
    }
  })

  it('can be read through the worker, whole or in part', async () => {
    const workers = new FakeServiceWorkers()
    const { url } = new FileStreams(workers).offer('stream', offered())
    expect(url).toMatch(/^\/stream\/bafy\/[\w-]{36}\/film\.webm$/)
    for (const [from, to] of [
      [0, whole.length],
      [1500, 4200],
      [whole.length - 1, whole.length],
    ] as const) {
      const { port, reply } = await workers.open('stream', ticketOf(url))
      expect(reply).toEqual({ kind: 'offered', size: whole.length, mime: 'video/webm', name: 'film.webm' })
      let ends = 0
      const { stream } = pullStream(port, { from, to }, () => ends++)
      expect(isSameBytes(await bytesOf(stream), whole.slice(from, to))).toBe(true)
      expect(ends).toBe(1)
    }
  })

  it('is read at most a few blocks ahead of its reader', async () => {
    const workers = new FakeServiceWorkers()
    const file = offered()
    const { port } = await workers.open('stream', ticketOf(new FileStreams(workers).offer('stream', file).url))
    const reader = pullStream(port, { from: 0, to: whole.length }, () => {}).stream.getReader()
    await settled()
    expect(file.blocksRead).toBe(0)
    await reader.read()
    await settled()
    expect(file.blocksRead).toBeLessThanOrEqual(5)
    expect(file.blocksRead).toBeGreaterThanOrEqual(4)
  })

  it('is unknown under another ticket, for another purpose, and after it was withdrawn', async () => {
    const workers = new FakeServiceWorkers()
    const streams = new FileStreams(workers)
    const { url, withdraw } = streams.offer('stream', offered())
    expect((await workers.open('stream', 'nonsense')).reply).toEqual({ kind: 'unknown' })
    expect((await workers.open('save', ticketOf(url))).reply).toEqual({ kind: 'unknown' })
    withdraw()
    expect((await workers.open('stream', ticketOf(url))).reply).toEqual({ kind: 'unknown' })
  })

  it('ends with an error when the tab goes away', async () => {
    const workers = new FakeServiceWorkers()
    const streams = new FileStreams(workers)
    const { port } = await workers.open('stream', ticketOf(streams.offer('stream', offered()).url))
    const reader = pullStream(port, { from: 0, to: whole.length }, () => {}).stream.getReader()
    await reader.read()
    streams.close()
    const rest = async () => {
      while (!(await reader.read()).done);
    }
    await expect(rest()).rejects.toThrow('its offer was withdrawn')
  })

  it('ends with an error when it is shorter than its stated size', async () => {
    const workers = new FakeServiceWorkers()
    const short = offered({ size: whole.length + 1 })
    const { port } = await workers.open('stream', ticketOf(new FileStreams(workers).offer('stream', short).url))
    await expect(bytesOf(pullStream(port, { from: 0, to: whole.length + 1 }, () => {}).stream)).rejects.toThrow('shorter')
  })

  it('stops being read when a player seeks elsewhere', async () => {
    const workers = new FakeServiceWorkers()
    const stopped: AbortSignal[] = []
    const file = offered()
    const { url } = new FileStreams(workers).offer('stream', {
      ...file,
      read(from, to, signal) {
        stopped.push(signal)
        return file.read(from, to, signal)
      },
    })
    const { port } = await workers.open('stream', ticketOf(url))
    const { stream } = pullStream(port, { from: 0, to: whole.length }, () => {})
    await stream.cancel()
    await settled()
    expect(stopped.map(({ aborted }) => aborted)).toEqual([true])
  })

  it('has at most four streams: a fifth closes the oldest', async () => {
    const workers = new FakeServiceWorkers()
    const { url } = new FileStreams(workers).offer('stream', offered())
    const streams: ReadableStream<Uint8Array>[] = []
    for (let i = 0; i < 5; i++) {
      const { port } = await workers.open('stream', ticketOf(url))
      streams.push(pullStream(port, { from: 0, to: whole.length }, () => {}).stream)
    }
    const [first, ...others] = streams.map(bytesOf)
    await expect(first).rejects.toThrow('too many streams')
    for (const other of others) expect((await other).length).toBe(whole.length)
  })
})

describe('the worker', () => {
  it('accepts from a tab only the bytes that it requested', async () => {
    const { port1, port2 } = new MessageChannel()
    ports.push(port1, port2)
    const { stream } = pullStream(port1, { from: 0, to: 10 }, () => {})
    port2.onmessage = ({ data }) => data.kind === 'pull' && port2.postMessage({ kind: 'bytes', bytes: new ArrayBuffer(11) })
    await expect(bytesOf(stream)).rejects.toThrow('not requested')
  })
})
