import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { makeCid, RAW, SHA2_256, type Cid } from '../content/index.ts'
import { defaultExchangeLimits, Exchange, type ExchangeLimits, type Input, type Output, type WantEntry } from './index.ts'
import type { Message } from './message.ts'
import type { PeerId } from './peer.ts'

/** Where the Rust core wrote what it does: `crates/bitswap/tests/scenarios`. */
const FOLDER = join(import.meta.dirname, '../../../tests/vectors/bitswap')

interface Scenario {
  readonly about: string
  readonly seed: string
  readonly limits: Record<string, number>
  readonly steps: readonly { at: number; input: SaidInput; outputs: readonly unknown[]; wake: number | null }[]
}

interface SaidMessage {
  readonly wants?: readonly { block: number; kind: 'cancel' | 'block' | 'block?' | 'have' | 'have?'; priority: number }[]
  readonly blocks?: readonly { block: number; bytes: number }[]
  readonly presences?: readonly { block: number; have: boolean }[]
  readonly full?: boolean
  readonly pending?: number
  readonly passed_over_blocks?: number
}

type SaidInput =
  | { kind: 'connected' | 'disconnected' | 'arriving'; peer: number }
  | { kind: 'received'; peer: number; message: SaidMessage }
  | { kind: 'writable'; peer: number; room: number }
  | { kind: 'have'; block: number; bytes: number }
  | { kind: 'found'; block: number; bytes: number | null }
  | { kind: 'read'; peer: number; block: number; bytes: number | null }
  | { kind: 'want'; wants: readonly { block: number; bytes: number | null; urgency: number }[] }
  | { kind: 'unwant' | 'urgent'; blocks: readonly number[] }
  | { kind: 'providers'; peers: readonly number[] }
  | { kind: 'tick' }

const cids = Array.from({ length: 256 }, (_, n) => makeCid(1, RAW, SHA2_256, new Uint8Array(32).fill(n)))
const cidOf = (block: number): Cid => cids[block] ?? cids[0]!
const blockOf = ({ digest }: Cid) => digest[0] ?? 0
const peerOf = (peer: number) => peer.toString(16).padStart(16, '0') as PeerId
const numberOf = (peer: PeerId) => parseInt(peer, 16)
/** Nobody looks into a block here, so those of a length may share their bytes. */
const zeroes = new Map<number, Uint8Array<ArrayBuffer>>()
function bytesOf(length: number): Uint8Array<ArrayBuffer> {
  const bytes = zeroes.get(length) ?? new Uint8Array(length)
  zeroes.set(length, bytes)
  return bytes
}

function readMessage({ wants = [], blocks = [], presences = [], full = false, pending = 0, ...rest }: SaidMessage) {
  const message: Message = {
    full,
    pendingBytes: pending,
    wants: wants.map(({ block, kind, priority }): WantEntry => ({
      cid: cidOf(block),
      priority,
      cancel: kind === 'cancel',
      type: kind === 'have' || kind === 'have?' ? 'have' : 'block',
      // A cancel asks for no answer; what the pretend peers write there makes no difference.
      sendDontHave: kind === 'block' || kind === 'have',
    })),
    presences: presences.map(({ block, have }) => ({ cid: cidOf(block), have })),
  }
  return {
    message,
    blocks: blocks.map(({ block, bytes }) => ({ cid: cidOf(block), data: bytesOf(bytes) })),
    passedOver: 0,
    passedOverBlocks: rest.passed_over_blocks ?? 0,
  }
}

function readInput(said: SaidInput): Input {
  switch (said.kind) {
    case 'connected':
      return { kind: said.kind, peer: peerOf(said.peer), isProvider: false }
    case 'disconnected':
    case 'arriving':
      return { kind: said.kind, peer: peerOf(said.peer) }
    case 'received':
      return { kind: said.kind, peer: peerOf(said.peer), ...readMessage(said.message) }
    case 'writable':
      return { kind: said.kind, peer: peerOf(said.peer), roomBytes: said.room }
    case 'have':
      return { kind: said.kind, cid: cidOf(said.block), length: said.bytes }
    case 'found':
      return { kind: said.kind, cid: cidOf(said.block), length: said.bytes }
    case 'read': {
      const cid = cidOf(said.block)
      const block = said.bytes === null ? null : { cid, data: bytesOf(said.bytes) }
      return { kind: said.kind, peer: peerOf(said.peer), cid, block }
    }
    case 'want':
      return {
        kind: said.kind,
        wants: said.wants.map(({ block, bytes, urgency }) => ({ cid: cidOf(block), length: bytes, urgency })),
      }
    case 'unwant':
    case 'urgent':
      return { kind: said.kind, cids: said.blocks.map(cidOf) }
    case 'providers':
      return { kind: said.kind, peers: said.peers.map(peerOf) }
    case 'tick':
      return { kind: said.kind }
  }
}

function sayWant({ cid, priority, cancel, type, sendDontHave }: WantEntry) {
  return { block: blockOf(cid), kind: cancel ? 'cancel' : `${type}${sendDontHave ? '' : '?'}`, priority }
}

function sayOutput(output: Output): unknown {
  switch (output.kind) {
    case 'send': {
      const { wants, presences, full, pendingBytes } = output.message
      const message = {
        ...(wants.length > 0 && { wants: wants.map(sayWant) }),
        ...(output.blocks.length > 0 && {
          blocks: output.blocks.map(({ cid, data }) => ({ block: blockOf(cid), bytes: data.length })),
        }),
        ...(presences.length > 0 && { presences: presences.map(({ cid, have }) => ({ block: blockOf(cid), have })) }),
        ...(full && { full }),
        ...(pendingBytes > 0 && { pending: pendingBytes }),
      }
      return { kind: output.kind, peer: numberOf(output.peer), message }
    }
    case 'look':
    case 'find-providers':
      return { kind: output.kind, block: blockOf(output.cid) }
    case 'read':
      return { kind: output.kind, peer: numberOf(output.peer), block: blockOf(output.cid) }
    case 'got':
      return { kind: output.kind, block: blockOf(output.block.cid), from: numberOf(output.from) }
    case 'drop':
      return { kind: output.kind, peer: numberOf(output.peer), reason: output.reason }
  }
}

function readLimits(said: Record<string, number>): ExchangeLimits {
  const named = Object.entries(said).map(([name, value]) => [name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), value])
  return { ...defaultExchangeLimits, ...Object.fromEntries(named) }
}

describe('an exchange does what the Rust core does', () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'))

  it('in many stories', () => {
    expect(files.length).toBeGreaterThan(15)
  })

  it.each(files)('%s', (name) => {
    const { seed, limits, steps } = JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Scenario
    const exchange = new Exchange(BigInt(seed), readLimits(limits))
    for (const [nth, { at, input, outputs, wake }] of steps.entries()) {
      exchange.handle(at, readInput(input))
      const said: unknown[] = []
      for (let output = exchange.pollOutput(); output !== null; output = exchange.pollOutput()) said.push(sayOutput(output))
      expect({ nth, input, outputs: said, wake: exchange.nextWake() }).toEqual({ nth, input, outputs, wake })
    }
  })
})
