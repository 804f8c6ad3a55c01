import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { makeCid, RAW, SHA2_256, type Cid } from '../content/index.ts'
import { defaultLimits, Exchange, type Limits, type Input, type Output, type WantEntry } from './index.ts'
import type { Message } from './message.ts'
import type { PeerId } from './peer.ts'

/** The scenarios recorded by the Rust core: `crates/bitswap/tests/scenarios`. */
const FOLDER = join(import.meta.dirname, '../../../../../tests/vectors/bitswap')

interface Scenario {
  readonly about: string
  readonly seed: string
  readonly limits: Record<string, number>
  readonly steps: readonly { at: number; input: RecordedInput; outputs: readonly unknown[]; wake: number | null }[]
}

interface RecordedMessage {
  readonly wants?: readonly { block: number; kind: 'cancel' | 'block' | 'block?' | 'have' | 'have?'; priority: number }[]
  readonly blocks?: readonly { block: number; bytes: number }[]
  readonly presences?: readonly { block: number; have: boolean }[]
  readonly full?: boolean
  readonly pending?: number
  readonly skipped_blocks?: number
}

type RecordedInput =
  | { kind: 'connected' | 'disconnected' | 'partial-message'; peer: number }
  | { kind: 'message'; peer: number; message: RecordedMessage }
  | { kind: 'writable'; peer: number; room: number }
  | { kind: 'acknowledged'; peer: number; messages: number }
  | { kind: 'stored'; block: number; bytes: number }
  | { kind: 'lookup-result'; block: number; bytes: number | null }
  | { kind: 'read'; peer: number; block: number; bytes: number | null }
  | { kind: 'want'; wants: readonly { block: number; bytes: number | null; urgency: number }[] }
  | { kind: 'cancel-wants' | 'set-urgent'; blocks: readonly number[] }
  | { kind: 'providers'; peers: readonly number[] }
  | { kind: 'tick' }

const cids = Array.from({ length: 256 }, (_, n) => makeCid(1, RAW, SHA2_256, new Uint8Array(32).fill(n)))
const cidOf = (block: number): Cid => cids[block] ?? cids[0]!
const blockOf = ({ digest }: Cid) => digest[0] ?? 0
const peerOf = (peer: number) => peer.toString(16).padStart(16, '0') as PeerId
const numberOf = (peer: PeerId) => parseInt(peer, 16)
/** The data of blocks does not matter here, so blocks of the same length share their bytes. */
const zeroes = new Map<number, Uint8Array<ArrayBuffer>>()
function bytesOf(length: number): Uint8Array<ArrayBuffer> {
  const bytes = zeroes.get(length) ?? new Uint8Array(length)
  zeroes.set(length, bytes)
  return bytes
}

function readMessage({ wants = [], blocks = [], presences = [], full = false, pending = 0, ...rest }: RecordedMessage) {
  const message: Message = {
    full,
    pendingBytes: pending,
    wants: wants.map(
      ({ block, kind, priority }): WantEntry => ({
        cid: cidOf(block),
        priority,
        cancel: kind === 'cancel',
        kind: kind === 'have' || kind === 'have?' ? 'have' : 'block',
        // A cancel needs no answer, so the flag does not matter.
        sendDontHave: kind === 'block' || kind === 'have',
      }),
    ),
    presences: presences.map(({ block, have }) => ({ cid: cidOf(block), hasBlock: have })),
  }
  return {
    message,
    blocks: blocks.map(({ block, bytes }) => ({ cid: cidOf(block), data: bytesOf(bytes) })),
    skippedEntries: 0,
    skippedBlocks: rest.skipped_blocks ?? 0,
  }
}

function readInput(recorded: RecordedInput): Input {
  switch (recorded.kind) {
    case 'connected':
      return { kind: recorded.kind, peer: peerOf(recorded.peer), isProvider: false }
    case 'disconnected':
    case 'partial-message':
      return { kind: recorded.kind, peer: peerOf(recorded.peer) }
    case 'message':
      return { kind: recorded.kind, peer: peerOf(recorded.peer), ...readMessage(recorded.message) }
    case 'writable':
      return { kind: recorded.kind, peer: peerOf(recorded.peer), roomBytes: recorded.room }
    case 'acknowledged':
      return { kind: recorded.kind, peer: peerOf(recorded.peer), messages: recorded.messages }
    case 'stored':
      return { kind: recorded.kind, cid: cidOf(recorded.block), length: recorded.bytes }
    case 'lookup-result':
      return { kind: recorded.kind, cid: cidOf(recorded.block), length: recorded.bytes }
    case 'read': {
      const cid = cidOf(recorded.block)
      const block = recorded.bytes === null ? null : { cid, data: bytesOf(recorded.bytes) }
      return { kind: recorded.kind, peer: peerOf(recorded.peer), cid, block }
    }
    case 'want':
      return {
        kind: recorded.kind,
        wants: recorded.wants.map(({ block, bytes, urgency }) => ({ cid: cidOf(block), length: bytes, urgency })),
      }
    case 'cancel-wants':
    case 'set-urgent':
      return { kind: recorded.kind, cids: recorded.blocks.map(cidOf) }
    case 'providers':
      return { kind: recorded.kind, peers: recorded.peers.map(peerOf) }
    case 'tick':
      return { kind: recorded.kind }
  }
}

function recordWant({ cid, priority, cancel, kind, sendDontHave }: WantEntry) {
  return { block: blockOf(cid), kind: cancel ? 'cancel' : `${kind}${sendDontHave ? '' : '?'}`, priority }
}

function recordOutput(output: Output): unknown {
  switch (output.kind) {
    case 'send': {
      const { wants, presences, full, pendingBytes } = output.message
      const message = {
        ...(wants.length > 0 && { wants: wants.map(recordWant) }),
        ...(output.blocks.length > 0 && {
          blocks: output.blocks.map(({ cid, data }) => ({ block: blockOf(cid), bytes: data.length })),
        }),
        ...(presences.length > 0 && { presences: presences.map(({ cid, hasBlock }) => ({ block: blockOf(cid), have: hasBlock })) }),
        ...(full && { full }),
        ...(pendingBytes > 0 && { pending: pendingBytes }),
      }
      return { kind: output.kind, peer: numberOf(output.peer), message }
    }
    case 'lookup':
    case 'find-providers':
      return { kind: output.kind, block: blockOf(output.cid) }
    case 'read':
      return { kind: output.kind, peer: numberOf(output.peer), block: blockOf(output.cid) }
    case 'block-received':
      return { kind: output.kind, block: blockOf(output.block.cid), from: numberOf(output.from) }
    case 'drop-peer':
      return { kind: output.kind, peer: numberOf(output.peer), reason: output.reason }
  }
}

function readLimits(recorded: Record<string, number>): Limits {
  const named = Object.entries(recorded).map(([name, value]) => [name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), value])
  return { ...defaultLimits, ...Object.fromEntries(named) }
}

describe('an exchange behaves as the Rust core', () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'))

  it('in at least 16 recorded scenarios', () => {
    expect(files.length).toBeGreaterThan(15)
  })

  it.each(files)('%s', (name) => {
    const { seed, limits, steps } = JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Scenario
    const exchange = new Exchange(BigInt(seed), readLimits(limits))
    for (const [nth, { at, input, outputs, wake }] of steps.entries()) {
      exchange.handle(at, readInput(input))
      const recorded: unknown[] = []
      for (let output = exchange.pollOutput(); output !== null; output = exchange.pollOutput()) recorded.push(recordOutput(output))
      expect({ nth, input, outputs: recorded, wake: exchange.nextWake() }).toEqual({ nth, input, outputs, wake })
    }
  })
})
