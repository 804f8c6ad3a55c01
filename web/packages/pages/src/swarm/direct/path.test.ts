import { beforeEach, describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/fake-clock.ts'
import type { Segment, UnsentMessage } from '../segment.ts'
import {
  decodeFrame,
  encodeLaneFrame,
  encodeReadFrame,
  encodeReceiptFrame,
  encodeSegmentFrame,
  FRAME_BYTES_MAX,
  PART_BYTES_MAX,
} from './frame.ts'
import { DirectPath } from './path.ts'

const MIB = 1 << 20

/** A channel that buffers everything until it is flushed. */
class Sink extends EventTarget {
  readyState: RTCDataChannelState = 'open'
  bufferedAmount = 0
  bufferedAmountLowThreshold = 0
  binaryType: BinaryType = 'blob'
  readonly sent: Segment[] = []
  readonly read: number[] = []
  readonly receipts: number[] = []
  /** All bytes up to each marked segment, and with it. */
  readonly marks: number[] = []
  sentBytes = 0

  send(data: Uint8Array<ArrayBuffer>): void {
    if (this.readyState !== 'open') throw new DOMException('not open', 'InvalidStateError')
    const frame = decodeFrame(data.buffer)
    if (frame === null || data.length > FRAME_BYTES_MAX) throw new Error('only frames are sent')
    this.bufferedAmount += data.length
    this.sentBytes += data.length
    if (frame.kind === 'receipt') this.receipts.push(frame.bytes)
    else if (frame.kind === 'read') this.read.push(frame.message)
    else if (frame.kind === 'segment') {
      this.sent.push(frame.segment)
      if (frame.isMarked) this.marks.push(this.sentBytes)
    }
  }

  drain(): void {
    this.bufferedAmount = 0
    this.dispatchEvent(new Event('bufferedamountlow'))
  }

  receive(data: unknown): void {
    this.dispatchEvent(new MessageEvent('message', { data }))
  }
}

let clock: FakeClock
let channel: Sink
let path: DirectPath
let happened: string[]
let quiet: number
let segments: Segment[]
/** The messages that were unread when the path went down last. */
let unread: readonly UnsentMessage[]
let sent: Set<number>
beforeEach(() => {
  clock = new FakeClock()
  channel = new Sink()
  happened = []
  quiet = 0
  segments = []
  unread = []
  sent = new Set()
  path = new DirectPath(channel, clock, (event) => {
    if (event.kind === 'quiet') quiet++
    else if (event.kind === 'segment') segments.push(event.segment)
    else if (event.kind === 'sent') {
      event.message.isReported = true
      sent.add(event.message.id)
    } else happened.push(event.kind === 'lane-signal' ? event.signal : event.kind)
    if (event.kind === 'down') unread = event.unread
  })
  path.setConnected(true)
})

const send = (id: number, bytes: number) => {
  path.send({ id, bytes: new Uint8Array(bytes), blocks: [], isReported: false, isRelayed: false })
}
const breakAndMend = () => {
  path.setConnected(false)
  path.setConnected(true)
}
/** The bytes of a channel up to one of its segments, and with it. */
const endOf = (sink: Sink, at: number) => sink.sent.slice(0, at + 1).reduce((sum, { bytes }) => sum + 13 + bytes.length, 0)
const numbers = () => [...new Set(channel.sent.map(({ message }) => message))]

describe('a direct path', () => {
  it('is up while its channel is open and its connection is up', () => {
    breakAndMend()
    channel.readyState = 'closed'
    channel.dispatchEvent(new Event('close'))
    expect(happened).toEqual(['up', 'down', 'up', 'down'])
  })

  it('splits messages into frames that every browser accepts', () => {
    send(5, 3 * PART_BYTES_MAX + 1)
    expect(channel.sent.map(({ message, offset, total, bytes }) => [message, offset, total, bytes.length])).toEqual([
      [5, 0, 49_114, PART_BYTES_MAX],
      [5, 16_371, 49_114, PART_BYTES_MAX],
      [5, 32_742, 49_114, PART_BYTES_MAX],
      [5, 49_113, 49_114, 1],
    ])
    expect(sent.has(5)).toBe(true)
  })

  it('stops while the browser buffers a mebibyte, and continues when it buffers less', () => {
    send(1, 3 * MIB)
    expect(channel.bufferedAmount).toBeGreaterThanOrEqual(MIB)
    expect(channel.bufferedAmount).toBeLessThan(MIB + FRAME_BYTES_MAX)
    expect(sent.has(1)).toBe(false)
    for (let i = 0; i < 3; i++) channel.drain()
    expect(sent.has(1)).toBe(true)
    expect(channel.bufferedAmountLowThreshold).toBe(256 << 10)
  })

  it('counts a message as sent when little of it is left in the buffer, and a short one at once', () => {
    send(1, MIB / 2)
    send(2, 100)
    expect([...sent]).toEqual([2])
    channel.drain()
    expect([...sent]).toEqual([2, 1])
  })

  it('sends short messages before long ones', () => {
    send(1, 3 * MIB)
    send(2, 100)
    channel.drain()
    expect(numbers()).toEqual([1, 2])
    const at = channel.sent.findIndex(({ message }) => message === 2)
    expect(channel.sent.slice(at).some(({ message }) => message === 1)).toBe(true)
  })

  it('starts no more messages while many are unread, except short ones', () => {
    for (let id = 0; id < 10; id++) {
      send(id, MIB)
      channel.drain()
      channel.drain()
    }
    expect(numbers()).toEqual([0, 1, 2, 3])
    send(20, 100)
    expect(numbers()).toEqual([0, 1, 2, 3, 20])
    channel.receive(encodeReadFrame(2).buffer)
    expect(numbers()).toEqual([0, 1, 2, 3, 20, 4])
  })

  it('returns unread messages in order when it goes down, and forgets them', () => {
    for (let id = 0; id < 6; id++) {
      send(id, MIB)
      channel.drain()
      channel.drain()
    }
    channel.receive(encodeReadFrame(1).buffer)
    expect([1, 2].map((id) => path.hasUnread(id))).toEqual([false, true])
    breakAndMend()
    expect(unread.map(({ id }) => id)).toEqual([0, 2, 3, 4, 5])
    breakAndMend()
    expect(unread).toEqual([])
  })

  it('passes on segments, and acknowledges messages', () => {
    const frame = new Uint8Array([0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 42])
    channel.receive(frame.buffer)
    expect(segments).toEqual([{ message: 7, offset: 0, total: 1, bytes: Uint8Array.of(42) }])
    path.acknowledge(7)
    expect(channel.read).toEqual([7])
  })

  it.each<[string, unknown]>([
    ['text', 'hello'],
    ['an empty frame', new ArrayBuffer(0)],
    ['a frame that is too long', new ArrayBuffer(FRAME_BYTES_MAX + 1)],
    ['an unknown frame', Uint8Array.of(9, 0, 0, 0, 0).buffer],
    ['half a segment', Uint8Array.of(0, 0, 0, 0, 0, 0).buffer],
    ['an acknowledgement that is too long', Uint8Array.of(1, 0, 0, 0, 0, 0).buffer],
  ])('treats %s as malformed', (_what, data) => {
    channel.receive(data)
    expect(happened).toEqual(['up', 'misbehaved'])
  })

  it('treats an acknowledgement before the message was sent as malformed', () => {
    send(1, 3 * MIB)
    channel.receive(encodeReadFrame(1).buffer)
    expect(happened).toEqual(['up', 'misbehaved'])
  })

  it('ignores acknowledgements of messages that were taken back', () => {
    send(1, 10)
    breakAndMend()
    channel.receive(encodeReadFrame(1).buffer)
    expect(happened).toEqual(['up', 'down', 'up'])
  })

  it('counts a message as read after a break if the other side had it already', () => {
    send(1, 3 * MIB)
    for (let i = 0; i < 3; i++) channel.drain()
    breakAndMend()
    channel.bufferedAmount = 2 * MIB
    sent.clear()
    send(1, 3 * MIB)
    channel.receive(encodeReadFrame(1).buffer)
    expect([sent.has(1), path.hasUnread(1)]).toEqual([true, false])
    expect(happened).toEqual(['up', 'down', 'up'])
  })

  it('is silent if nothing arrives for ten seconds after sending', () => {
    send(1, 10)
    channel.bufferedAmount = 0
    clock.pass(1000)
    expect(quiet).toBe(0)
    clock.pass(7000)
    expect(quiet).toBeGreaterThan(0)
    expect(happened).toEqual(['up'])
    clock.pass(8000)
    expect(happened).toEqual(['up', 'down', 'silent'])
  })

  it('is up again when anything arrives from a busy peer', () => {
    send(1, 10)
    channel.bufferedAmount = 0
    clock.pass(16_000)
    channel.receive(encodeReadFrame(1).buffer)
    expect(happened).toEqual(['up', 'down', 'silent', 'up'])
    expect(path.isUp).toBe(true)
    send(2, 10)
    clock.pass(16_000)
    expect(happened.slice(4)).toEqual(['down', 'silent'])
  })

  it('does not count the other side as silent while this tab was busy', () => {
    send(1, 10)
    channel.bufferedAmount = 0
    clock.pass(4000)
    clock.holdUp(9000)
    expect(happened).toEqual(['up'])
    clock.pass(16_000)
    expect(happened).toEqual(['up', 'down', 'silent'])
  })

  it('is broken when its channel accepts no data', () => {
    send(1, 10)
    channel.send = () => {
      throw new DOMException('full', 'OperationError')
    }
    send(2, 10)
    expect(happened).toEqual(['up', 'broken'])
  })

  it('is not silent while it is only slow', () => {
    send(1, MIB)
    for (let seconds = 0; seconds < 20; seconds++) {
      channel.bufferedAmount -= 1000
      clock.pass(1000)
    }
    expect(happened).toEqual(['up'])
    expect(quiet).toBe(0)
  })

  it('marks no segments for a peer that sends no receipts', () => {
    send(1, MIB)
    expect(channel.marks).toEqual([])
  })

  it('sends no more than a window without a receipt, except short messages', () => {
    path.useReceipts()
    send(1, 3 * MIB)
    const first = channel.sentBytes
    expect(first).toBeGreaterThanOrEqual(64 << 10)
    expect(first).toBeLessThan(96 << 10)
    expect(channel.marks.at(-1)).toBe(first)
    send(2, 100)
    expect(numbers()).toEqual([1, 2])
    channel.bufferedAmount = 0
    clock.pass(50)
    for (const mark of channel.marks.splice(0)) channel.receive(encodeReceiptFrame(mark).buffer)
    clock.pass(50)
    expect(channel.sentBytes).toBeGreaterThan(first + (32 << 10))
    expect(happened).toEqual(['up', 'narrow'])
  })

  it('sends long messages on a lane too, and what was under way there again when it closes', () => {
    path.useReceipts()
    const lane = new Sink()
    send(1, MIB)
    const drop = path.addLane(lane)
    send(2, 100)
    expect(lane.sent.length).toBeGreaterThan(2)
    expect(new Set(lane.sent.map(({ message }) => message))).toEqual(new Set([1]))
    expect(numbers()).toEqual([1, 2])
    lane.receive(encodeReceiptFrame(lane.marks[0] ?? 0).buffer)
    const unconfirmed = lane.sent.filter((_segment, at) => endOf(lane, at) > (lane.marks[0] ?? 0))
    lane.readyState = 'closed'
    drop()
    for (let i = 0; i < 40; i++) {
      for (const mark of channel.marks.splice(0)) channel.receive(encodeReceiptFrame(mark).buffer)
      channel.bufferedAmount = 0
      clock.pass(20)
    }
    const again = channel.sent.filter(({ message, offset }) => message === 1 && lane.sent.some((other) => other.offset === offset))
    expect(again).toEqual(unconfirmed)
    expect(happened).toEqual(['up'])
  })

  it('sends a message that was taken back from its beginning, although a lane with parts of it closes', () => {
    path.useReceipts()
    const lane = new Sink()
    send(1, MIB)
    const drop = path.addLane(lane)
    const before = channel.sent.length
    breakAndMend()
    send(1, MIB)
    drop()
    for (let i = 0; i < 200; i++) {
      for (const mark of channel.marks.splice(0)) channel.receive(encodeReceiptFrame(mark).buffer)
      channel.bufferedAmount = 0
      clock.pass(20)
    }
    let end = 0
    for (const { offset, bytes } of channel.sent
      .slice(before)
      .concat(lane.sent)
      .toSorted((a, b) => a.offset - b.offset))
      if (offset <= end) end = Math.max(end, offset + bytes.length)
    expect(end).toBe(MIB)
    expect(channel.sent.slice(before).map(({ offset }) => offset)).toContain(0)
  })

  it.each([
    ['a long path that has much to send', 25, MIB, ['up', 'narrow']],
    ['a long path that has little to send', 25, MIB / 2, ['up']],
    ['a path in one house', 10, MIB, ['up']],
  ])('asks once for lanes on %s', (_what, roundTrip, bytes, expected) => {
    path.useReceipts()
    send(1, bytes)
    clock.pass(roundTrip)
    const marks = channel.marks.splice(0)
    for (const mark of marks) channel.receive(encodeReceiptFrame(mark).buffer)
    expect(marks.length).toBeGreaterThan(1)
    expect(happened).toEqual(expected)
  })

  it('begins on three lanes with no more together than the first window', () => {
    path.useReceipts()
    send(1, MIB)
    const lanes = [new Sink(), new Sink(), new Sink()]
    for (const lane of lanes) path.addLane(lane)
    const bytes = lanes.map(({ sentBytes }) => sentBytes)
    expect(Math.min(...bytes)).toBeGreaterThan(0)
    expect(bytes.reduce((sum, each) => sum + each)).toBeLessThan(128 << 10)
  })

  it('takes what arrives on a lane, and what is said about one', () => {
    path.useReceipts()
    const lane = new Sink()
    path.addLane(lane)
    const segment = { message: 7, offset: 0, total: 100, bytes: new Uint8Array(10) }
    lane.receive(encodeSegmentFrame(segment, true).buffer)
    expect([lane.receipts, channel.receipts, segments.length]).toEqual([[23], [], 1])
    channel.receive(encodeLaneFrame('{"lane":1}').buffer)
    expect(happened).toEqual(['up', '{"lane":1}'])
  })

  it('answers each marked segment with the bytes that have arrived', () => {
    const segment = { message: 7, offset: 0, total: 100, bytes: new Uint8Array(10) }
    for (const isMarked of [false, true, true]) channel.receive(encodeSegmentFrame(segment, isMarked).buffer)
    channel.receive(encodeReadFrame(3).buffer)
    channel.receive(encodeSegmentFrame(segment, true).buffer)
    expect(channel.receipts).toEqual([46, 69, 97])
    expect(segments.length).toBe(4)
  })

  it.each([
    ['without a mark', false],
    ['of more than was sent', true],
  ])('treats a receipt %s as malformed', (_what, isMarking) => {
    if (isMarking) path.useReceipts()
    send(1, 10)
    channel.receive(encodeReceiptFrame(channel.sentBytes + 1).buffer)
    expect(happened).toEqual(['up', 'misbehaved'])
  })

  it('is not silent while nothing was sent', () => {
    send(1, 10)
    channel.receive(encodeReadFrame(1).buffer)
    clock.pass(60_000)
    expect(happened).toEqual(['up'])
  })
})
