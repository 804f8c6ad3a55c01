import { afterEach, describe, expect, it } from 'vitest'
import { pattern } from '../content/pattern.ts'
import { isSameBytes, type Bytes } from '../content/index.ts'
import { pulledStream } from './pulled.ts'
import { Tap, type Given, type Workers } from './tap.ts'
import { readWord, type Call, type Word } from './words.ts'

const BLOCK = 1000
const ports: MessagePort[] = []
afterEach(() => {
  for (const port of ports.splice(0)) port.close()
})

/** The worker's side as this tab sees it. */
class PretendWorkers extends EventTarget implements Workers {
  readonly calls: Call[] = []
  readonly controller = { postMessage: (call: Call) => void this.calls.push(call) }
  readonly ready = Promise.resolve({ active: this.controller })
  register = async () => {}

  /** Asks the tab for a ticket; the port on which it answers, and its first word. */
  async ask(way: 'stream' | 'save', ticket: string): Promise<{ port: MessagePort; word: Word | null }> {
    const { port1, port2 } = new MessageChannel()
    ports.push(port1)
    const first = new Promise<Word | null>((resolve) => (port1.onmessage = ({ data }) => resolve(readWord(data))))
    this.dispatchEvent(new MessageEvent('message', { data: { tap: 'open', way, ticket }, ports: [port2] }))
    return { port: port1, word: await first }
  }
}

const whole = pattern(10 * BLOCK + 7)

/** A file that counts the blocks that were read of it. */
function given(part: Partial<Given> = {}): Given & { blocksRead: number } {
  const file = {
    cid: 'bafy', name: 'film.webm', mime: 'video/webm', size: whole.length, blocksRead: 0,
    read(from: number, to: number) {
      let at = from
      return new ReadableStream<Bytes>({
        pull(controller) {
          const bytes = whole.slice(at, Math.min(to, at + BLOCK))
          if (bytes.length === 0) return controller.close()
          at += bytes.length
          file.blocksRead++
          controller.enqueue(bytes)
        },
      }, { highWaterMark: 0 })
    },
    ...part,
  }
  return file
}

const ticketOf = (address: string) => address.split('/')[3] ?? ''
const bytesOf = async (stream: ReadableStream<Uint8Array>) => new Uint8Array(await new Response(stream as ReadableStream<Bytes>).arrayBuffer())
/** Lets everything happen that is on its way between ports. */
const settled = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('a file that a tab gives out', () => {
  it('comes through the worker, whole or in part', async () => {
    const workers = new PretendWorkers()
    const { address } = new Tap(workers).give('stream', given())
    expect(address).toMatch(/^\/stream\/bafy\/[\w-]{36}\/film\.webm$/)
    for (const [from, to] of [[0, whole.length], [1500, 4200], [whole.length - 1, whole.length]] as const) {
      const { port, word } = await workers.ask('stream', ticketOf(address))
      expect(word).toEqual({ kind: 'offered', size: whole.length, mime: 'video/webm', name: 'film.webm' })
      let ends = 0
      const { stream } = pulledStream(port, { from, to }, () => ends++)
      expect(isSameBytes(await bytesOf(stream), whole.slice(from, to))).toBe(true)
      expect(ends).toBe(1)
    }
  })

  it('is read no more than a few blocks before somebody takes them', async () => {
    const workers = new PretendWorkers()
    const file = given()
    const { port } = await workers.ask('stream', ticketOf(new Tap(workers).give('stream', file).address))
    const reader = pulledStream(port, { from: 0, to: whole.length }, () => {}).stream.getReader()
    await settled()
    expect(file.blocksRead).toBe(0)
    await reader.read()
    await settled()
    expect(file.blocksRead).toBeLessThanOrEqual(5)
    expect(file.blocksRead).toBeGreaterThanOrEqual(4)
  })

  it('is unknown under another ticket, another way, or when it was withdrawn', async () => {
    const workers = new PretendWorkers()
    const tap = new Tap(workers)
    const { address, withdraw } = tap.give('stream', given())
    expect((await workers.ask('stream', 'nonsense')).word).toEqual({ kind: 'unknown' })
    expect((await workers.ask('save', ticketOf(address))).word).toEqual({ kind: 'unknown' })
    withdraw()
    expect((await workers.ask('stream', ticketOf(address))).word).toEqual({ kind: 'unknown' })
  })

  it('ends with an error when the tab goes away', async () => {
    const workers = new PretendWorkers()
    const tap = new Tap(workers)
    const { port } = await workers.ask('stream', ticketOf(tap.give('stream', given()).address))
    const reader = pulledStream(port, { from: 0, to: whole.length }, () => {}).stream.getReader()
    await reader.read()
    tap.close()
    const rest = async () => {
      while (!(await reader.read()).done);
    }
    await expect(rest()).rejects.toThrow('given out no longer')
  })

  it('ends with an error when it turns out shorter than it was said to be', async () => {
    const workers = new PretendWorkers()
    const short = given({ size: whole.length + 1 })
    const { port } = await workers.ask('stream', ticketOf(new Tap(workers).give('stream', short).address))
    await expect(bytesOf(pulledStream(port, { from: 0, to: whole.length + 1 }, () => {}).stream)).rejects.toThrow('shorter')
  })

  it('is let go of when a player jumps elsewhere', async () => {
    const workers = new PretendWorkers()
    const stopped: AbortSignal[] = []
    const file = given()
    const { address } = new Tap(workers).give('stream', {
      ...file,
      read(from, to, signal) {
        stopped.push(signal)
        return file.read(from, to, signal)
      },
    })
    const { port } = await workers.ask('stream', ticketOf(address))
    const { stream } = pulledStream(port, { from: 0, to: whole.length }, () => {})
    await stream.cancel()
    await settled()
    expect(stopped.map(({ aborted }) => aborted)).toEqual([true])
  })

  it('is read by no more than four at once: the oldest makes room', async () => {
    const workers = new PretendWorkers()
    const { address } = new Tap(workers).give('stream', given())
    const streams: ReadableStream<Uint8Array>[] = []
    for (let i = 0; i < 5; i++) {
      const { port } = await workers.ask('stream', ticketOf(address))
      streams.push(pulledStream(port, { from: 0, to: whole.length }, () => {}).stream)
    }
    const [first, ...others] = streams.map(bytesOf)
    await expect(first).rejects.toThrow('too many parts')
    for (const other of others) expect((await other).length).toBe(whole.length)
  })
})

describe('the worker', () => {
  it('takes from a tab only what it asked for', async () => {
    const { port1, port2 } = new MessageChannel()
    ports.push(port1, port2)
    const { stream } = pulledStream(port1, { from: 0, to: 10 }, () => {})
    port2.onmessage = ({ data }) => data.kind === 'pull' && port2.postMessage({ kind: 'bytes', bytes: new ArrayBuffer(11) })
    await expect(bytesOf(stream)).rejects.toThrow('other bytes')
  })
})
