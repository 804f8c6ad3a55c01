import { expect, it } from 'vitest'
import { readVectors } from '../../test/vectors.ts'
import { Outgoing, UnreadBlocks, type SentSegment } from './outgoing.ts'
import type { UnsentMessage } from './segment.ts'

interface Scenario {
  readonly about: string
  readonly frame_bytes_max?: number
  readonly steps: readonly { readonly at: number; readonly do: Action }[]
}

type Action =
  | ['push' | 'push-blocks', id: number, bytes: number]
  | ['ok' | 'timeout', nth: number]
  | ['error', nth: number, response: unknown]
  | ['hold', until: number]
  | ['up' | 'down' | 'tick']
  | ['read', id: number]

/** A peer whose direct path does nothing by itself. */
class TwoPaths {
  readonly #outgoing: Outgoing
  readonly #unreadBlocks = new UnreadBlocks()
  readonly #inFlight: SentSegment[] = []
  #direct: UnsentMessage[] = []
  #isUp = false
  #acknowledged = 0

  constructor(frameBytesMax: number) {
    this.#outgoing = new Outgoing(frameBytesMax)
  }

  /** Returns the results in the form of the vectors. */
  step(at: number, action: Action): Record<string, unknown> {
    const before = this.#direct.length
    const [sent, isReachable] = this.#handle(at, action)
    if (!isReachable) return { lost: true }
    const relayed: number[][] = []
    for (let next = this.#outgoing.next(at); next !== null; next = this.#outgoing.next(at)) {
      this.#inFlight.push(next.sent)
      relayed.push([next.segment.message, next.segment.offset, next.segment.bytes.length])
    }
    const direct = this.#direct.slice(before).map(({ id }) => id)
    const isUnread = (id: number) => this.#outgoing.has(id) || this.#direct.some((each) => each.id === id)
    const acknowledged = this.#unreadBlocks.update(isUnread)
    const wake = this.#outgoing.nextWake()
    const isNew = acknowledged > this.#acknowledged
    this.#acknowledged = acknowledged
    return {
      ...(relayed.length > 0 && { relayed }),
      ...(direct.length > 0 && { direct }),
      ...(sent !== null && !sent.isReported && { sent: [sent.bytes.length] }),
      ...(isNew && { acknowledged }),
      ...(wake !== Infinity && { wake }),
    }
  }

  #handle(at: number, action: Action): [sent: UnsentMessage | null, isReachable: boolean] {
    switch (action[0]) {
      case 'push':
      case 'push-blocks': {
        const [kind, id, length] = action
        const message = { id, bytes: new Uint8Array(length), blocks: [], isReported: false, isRelayed: false }
        if (kind === 'push-blocks') this.#unreadBlocks.noteSent(id)
        if (this.#isUp) this.#direct.push(message)
        else this.#outgoing.push(message)
        break
      }
      case 'ok':
        return [this.#outgoing.handleRelayed(this.#take(action[1])), true]
      case 'error':
        return [null, this.#outgoing.handleError(at, this.#take(action[1]), action[2])]
      case 'timeout':
        return [null, this.#outgoing.handleTimeout(this.#take(action[1]))]
      case 'hold':
        this.#outgoing.hold(action[1])
        break
      case 'up':
        this.#isUp = true
        this.#outgoing.release()
        this.#direct.push(...this.#outgoing.takeForDirect())
        break
      case 'down':
        this.#isUp = false
        for (const message of this.#direct.splice(0)) if (!message.isRelayed) this.#outgoing.push(message)
        break
      case 'read':
        this.#direct = this.#direct.filter(({ id }) => id !== action[1])
        break
      case 'tick':
        break
    }
    return [null, true]
  }

  #take(nth: number): SentSegment {
    const [segment] = this.#inFlight.splice(nth, 1)
    if (segment === undefined) throw new Error('no such segment is in flight')
    return segment
  }
}

it.each(readVectors<Scenario[]>('page/outgoing.json'))('$about', ({ frame_bytes_max: frameBytesMax = 65_536, steps }) => {
  const peer = new TwoPaths(frameBytesMax)
  for (const [nth, step] of steps.entries()) {
    const results = peer.step(step.at, step.do)
    expect({ nth, at: step.at, do: step.do, ...results }).toEqual({ nth, ...step })
  }
})

it('a peer that was busy before it had a direct connection is reachable after that, and so is one that timed out', () => {
  const outgoing = new Outgoing(65_536)
  const busy = { reason: 'peer busy', retry_after_ms: 50 }
  const send = (id: number, now: number) => {
    outgoing.push({ id, bytes: new Uint8Array(10), blocks: [], isReported: false, isRelayed: false })
    const next = outgoing.next(now)
    if (next === null) throw new Error('nothing was sent')
    return next.sent
  }
  expect(outgoing.handleError(0, send(1, 0), busy)).toBe(true)
  expect(outgoing.takeForDirect()).toHaveLength(1)
  expect(outgoing.handleError(40_000, send(2, 40_000), busy)).toBe(true)
  outgoing.takeForDirect()
  for (let times = 0; times < 4; times++) {
    expect(outgoing.handleTimeout(send(3 + times, 50_000 + times))).toBe(true)
    outgoing.takeForDirect()
  }
})
