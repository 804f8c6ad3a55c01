import { describe, expect, it } from 'vitest'
import { readVectors } from '../../../test/vectors.ts'
import { SendWindow } from './send-window.ts'

const MBIT = 125 // bytes per millisecond
const PACKET_BYTES = 1_200
const HEADER_BYTES = 100

interface Line {
  /** Bytes per millisecond. */
  rate: number
  oneWay: number
  queueBytes: number
}

/** Events of a simulated clock, in order. */
class Events {
  now = 0
  #all: { at: number; run: () => void }[] = []

  after(milliseconds: number, run: () => void): void {
    const at = this.now + milliseconds
    const before = this.#all.findLastIndex((event) => event.at <= at)
    this.#all.splice(before + 1, 0, { at, run })
  }

  runUntil(end: number): void {
    for (let next = this.#all[0]; next !== undefined && next.at <= end; next = this.#all[0]) {
      this.#all.shift()
      this.now = next.at
      next.run()
    }
    this.now = end
  }
}

/** A link with a queue that drops what does not fit, shared by all senders. */
class Link {
  readonly line: Line
  readonly #events: Events
  #freeAt = 0
  droppedBytes = 0
  /** The time that each packet spent in the queue. */
  readonly waits: number[] = []

  constructor(line: Line, events: Events) {
    this.line = line
    this.#events = events
  }

  /** Carries a packet, unless the queue is full. */
  send(bytes: number, arrive: () => void): boolean {
    const { rate, oneWay, queueBytes } = this.line
    const wait = Math.max(0, this.#freeAt - this.#events.now)
    if (wait * rate + bytes > queueBytes) {
      this.droppedBytes += bytes
      return false
    }
    this.waits.push(wait)
    this.#freeAt = this.#events.now + wait + bytes / rate
    this.#events.after(wait + bytes / rate + oneWay, arrive)
    return true
  }
}

interface Frame {
  readonly bytes: number
  readonly end: number
  readonly isMarked: boolean
}

/** A data channel over SCTP, which begins with ten packets, doubles in a round trip, and halves when one was dropped. */
class Sender {
  readonly window = new SendWindow()
  deliveredBytes = 0
  /** For how long the receiver's tab is busy from now on. */
  busyUntil = 0
  readonly #events: Events
  readonly #link: Link
  #buffered: Frame[] = []
  readonly #arrived = new Map<number, Frame>()
  #given = 0
  #congestionWindow = 10 * PACKET_BYTES
  #threshold = Infinity
  #inFlight = 0
  #isTimed = false
  #isStopped = false

  constructor(events: Events, link: Link) {
    this.#events = events
    this.#link = link
  }

  start(): void {
    this.#isStopped = false
    this.#pump()
  }

  stop(): void {
    this.#isStopped = true
  }

  #pump(): void {
    this.window.handleBuffered(this.#buffered.reduce((sum, { bytes }) => sum + bytes, 0))
    while (!this.#isStopped && this.window.room > 0 && this.#buffered.length < 64) {
      const pause = this.window.pause(this.#events.now)
      if (pause > 0) {
        if (!this.#isTimed) this.#events.after(pause, () => this.#resume())
        this.#isTimed = true
        return
      }
      const bytes = Math.min(16 << 10, this.window.frameBytes)
      const isMarked = this.window.asksFor(bytes)
      this.window.handleSent(this.#events.now, bytes, isMarked)
      this.#given += bytes
      this.#buffered.push({ bytes, end: this.#given, isMarked })
      this.#flush()
    }
  }

  #resume(): void {
    this.#isTimed = false
    this.#pump()
  }

  #flush(): void {
    for (let next = this.#buffered[0]; next !== undefined && this.#inFlight < this.#congestionWindow; next = this.#buffered[0]) {
      this.#buffered.shift()
      this.#inFlight += next.bytes
      this.#transmit(next)
    }
  }

  #transmit(frame: Frame): void {
    const onWire = Math.ceil(frame.bytes / PACKET_BYTES) * HEADER_BYTES + frame.bytes
    if (this.#link.send(onWire, () => this.#arrive(frame))) return
    this.#threshold = this.#congestionWindow = Math.max(2 * PACKET_BYTES, this.#congestionWindow / 2)
    // The next acknowledgement shows the loss.
    this.#events.after(2 * this.#link.line.oneWay + 10, () => this.#transmit(frame))
  }

  #arrive(frame: Frame): void {
    const { oneWay } = this.#link.line
    this.#events.after(oneWay, () => {
      this.#inFlight -= frame.bytes
      const isSlow = this.#congestionWindow < this.#threshold
      this.#congestionWindow += isSlow ? frame.bytes : (PACKET_BYTES * frame.bytes) / this.#congestionWindow
      this.#flush()
    })
    this.#arrived.set(frame.end - frame.bytes, frame)
    this.#events.after(Math.max(0, this.busyUntil - this.#events.now), () => this.#deliver())
  }

  /** In order: what follows a dropped frame waits for it. */
  #deliver(): void {
    for (let next = this.#arrived.get(this.deliveredBytes); next !== undefined; next = this.#arrived.get(this.deliveredBytes)) {
      const { bytes, end, isMarked } = next
      this.#arrived.delete(this.deliveredBytes)
      this.deliveredBytes += bytes
      if (isMarked) this.#events.after(this.#link.line.oneWay, () => this.#confirm(end))
    }
  }

  #confirm(end: number): void {
    expect(this.window.handleReceipt(this.#events.now, end)).toBe(true)
    this.#pump()
  }
}

function world(line: Partial<Line> = {}) {
  const events = new Events()
  const link = new Link({ rate: 100 * MBIT, oneWay: 25, queueBytes: 512 << 10, ...line }, events)
  const add = () => {
    const sender = new Sender(events, link)
    sender.start()
    return sender
  }
  /** The share of the line that a sender had from now on for some time. */
  const shareFor = (sender: Sender, milliseconds: number) => {
    const before = sender.deliveredBytes
    events.runUntil(events.now + milliseconds)
    return (sender.deliveredBytes - before) / (milliseconds * link.line.rate)
  }
  return { events, link, add, shareFor }
}

/** The time, what waits in SCTP, how many marks are confirmed; then the room, the pause and the longest frame. */
type Step = [now: number, buffered: number, receipts: number, room: number, pause: number, frameBytes: number]

const middle = (all: readonly number[]) => [...all].sort((a, b) => a - b)[all.length >> 1] ?? 0

describe('a send window', () => {
  for (const [mbit, oneWay] of [
    [100, 10],
    [100, 25],
    [100, 50],
    [100, 100],
    [20, 25],
    [5, 25],
  ] as const)
    it(`fills a line of ${mbit} Mbit/s and ${oneWay} ms and does not overflow its queue`, () => {
      const { events, link, add, shareFor } = world({ rate: mbit * MBIT, oneWay })
      const sender = add()
      events.runUntil(30 * oneWay)
      link.waits.length = 0
      expect(shareFor(sender, 2_000)).toBeGreaterThan(0.85)
      expect(link.droppedBytes).toBe(0)
      expect(middle(link.waits)).toBeLessThan(50)
    })

  it.each(readVectors<{ name: string; steps: Step[] }[]>('send_windows.json'))('is that of a terminal: $name', ({ steps }) => {
    const window = new SendWindow()
    const marks: number[] = []
    let sent = 0
    for (const [now, buffered, receipts, room, pause, frameBytes] of steps) {
      window.handleBuffered(buffered)
      for (const mark of marks.splice(0, receipts)) expect(window.handleReceipt(now, mark)).toBe(true)
      while (window.room > 0 && window.pause(now) === 0) {
        const bytes = Math.min(16 << 10, window.frameBytes)
        const isMarked = window.asksFor(bytes)
        window.handleSent(now, bytes, isMarked)
        sent += bytes
        if (isMarked) marks.push(sent)
      }
      expect(window.frameBytes, `at ${now} ms`).toBe(frameBytes)
      expect(window.room, `at ${now} ms`).toBeCloseTo(room, 2)
      expect(window.pause(now), `at ${now} ms`).toBeCloseTo(pause, 2)
    }
  })

  it('leaves a line with a short queue to SCTP, which has lost packets', () => {
    const { events, add, shareFor } = world({ queueBytes: 64 << 10 })
    const sender = add()
    events.runUntil(1_000)
    expect(shareFor(sender, 5_000)).toBeGreaterThan(0.25)
  })

  it('follows a line that falls from 100 Mbit/s to 1', () => {
    const { events, link, add, shareFor } = world()
    const sender = add()
    events.runUntil(2_000)
    link.line.rate = MBIT
    events.runUntil(10_000)
    link.waits.length = 0
    expect(shareFor(sender, 5_000)).toBeGreaterThan(0.8)
    expect(middle(link.waits)).toBeLessThan(400)
    link.line.rate = 100 * MBIT
    events.runUntil(events.now + 5_000)
    // SCTP has halved its own window, and grows it by a packet in each round trip.
    expect(shareFor(sender, 1_000)).toBeGreaterThan(0.2)
  })

  it('follows a path that becomes longer', () => {
    const { events, link, add, shareFor } = world({ oneWay: 10 })
    const sender = add()
    events.runUntil(2_000)
    link.line.oneWay = 60
    events.runUntil(6_000)
    expect(shareFor(sender, 2_000)).toBeGreaterThan(0.6)
  })

  it('shares a line with another sender', () => {
    const { events, add, shareFor } = world()
    const first = add()
    events.runUntil(2_000)
    const second = add()
    events.runUntil(12_000)
    const before = second.deliveredBytes
    const share = shareFor(first, 4_000)
    const other = (second.deliveredBytes - before) / (4_000 * 100 * MBIT)
    expect((share + other) ** 2 / (2 * (share ** 2 + other ** 2))).toBeGreaterThan(0.8)
    expect(share + other).toBeGreaterThan(0.8)
  })

  it('does not follow a busy tab with a burst that overflows the queue', () => {
    const { events, link, add, shareFor } = world()
    const sender = add()
    events.runUntil(1_000)
    const pauses = () => {
      sender.busyUntil = events.now + 50
      events.after(250, pauses)
    }
    pauses()
    expect(shareFor(sender, 5_000)).toBeGreaterThan(0.6)
    expect(link.droppedBytes).toBe(0)
  })

  it('sends again after a pause', () => {
    const { events, add, shareFor } = world()
    const sender = add()
    events.runUntil(1_000)
    sender.stop()
    events.runUntil(20_000)
    sender.start()
    expect(shareFor(sender, 1_000)).toBeGreaterThan(0.7)
  })

  it('knows after the first window whether SCTP needs long to recover from a loss', () => {
    const answers = [2, 14, 15, 200].map((roundTrip) => {
      const window = new SendWindow()
      return [1, 2, 3].map((time) => {
        window.handleSent(0, 40 << 10, true)
        window.handleReceipt(roundTrip, time * (40 << 10))
        return window.isLong
      })
    })
    expect(answers).toEqual([
      [false, false, false],
      [false, false, false],
      [false, true, true],
      [false, true, true],
    ])
  })

  it('rejects a receipt for what was not marked, and a second one', () => {
    const window = new SendWindow()
    window.handleSent(0, 1_000, true)
    expect(window.handleReceipt(10, 999)).toBe(false)
    const other = new SendWindow()
    other.handleSent(0, 1_000, true)
    expect(other.handleReceipt(10, 1_000)).toBe(true)
    expect(other.handleReceipt(11, 1_000)).toBe(false)
  })

  it('lets a frame leave, with a mark, after many frames that nobody confirms', () => {
    const window = new SendWindow()
    window.handleSent(0, 1_000, true)
    window.handleReceipt(10, 1_000)
    for (let receipt = 0; receipt < 20_000; receipt++) window.handleSent(20, 9, false)
    expect(window.room).toBe(1)
    expect(window.asksFor(100)).toBe(true)
    window.handleSent(30, 100, true)
    expect(window.room).toBeLessThan(0)
    window.handleReceipt(40, 181_100)
    expect(window.room).toBe(64 << 10)
  })

  it('gives a peer that confirms nothing no more than the first window', () => {
    const window = new SendWindow()
    let given = 0
    while (window.room > 0) {
      window.handleSent(0, 16_384, window.asksFor(16_384))
      given += 16_384
    }
    expect(given).toBe(64 << 10)
  })
})
