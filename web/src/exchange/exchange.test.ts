import { beforeAll, describe, expect, it } from 'vitest'
import { cidOf, parseCid, RAW, type Bytes, type Cid } from '../content/index.ts'
import { defaultExchangeSettings, Exchange, type ExchangeSettings, type Input, type Output, type PeerId } from './index.ts'

const alice = 'alice' as PeerId
const bob = 'bob' as PeerId
const carol = 'carol' as PeerId
const nothing = { full: false, wants: [], presences: [], pendingBytes: 0 }

interface Block {
  readonly cid: Cid
  readonly bytes: Bytes
}
const blocks: Block[] = []
beforeAll(async () => {
  for (let i = 0; i < 3000; i++) {
    const bytes = Uint8Array.from({ length: 2000 }, (_, at) => (at === 0 ? i : i >> 8))
    blocks.push({ cid: await cidOf(RAW, bytes), bytes })
  }
})
const block = (i: number): Block => {
  const found = blocks[i]
  if (found === undefined) throw new Error('there are that many blocks')
  return found
}

/** An exchange whose messages always get through, and what it has said so far. */
class Story {
  readonly exchange: Exchange
  readonly outputs: Output[] = []
  readonly #acknowledged: boolean

  constructor(settings: Partial<ExchangeSettings> = {}, acknowledged = true) {
    this.exchange = new Exchange(0, { ...defaultExchangeSettings, ...settings })
    this.#acknowledged = acknowledged
  }

  at(now: number, ...inputs: Input[]): this {
    for (const input of inputs) {
      const outputs = this.exchange.handle(now, input)
      this.outputs.push(...outputs)
      if (!this.#acknowledged) continue
      for (const output of outputs) {
        if (output.kind === 'send') this.at(now, { kind: 'sent', peer: output.peer, lane: output.lane })
      }
    }
    return this
  }

  /** What was said to a peer since last asked, as `verb index`. */
  said(peer: PeerId): string[] {
    const said: string[] = []
    for (const output of this.outputs.splice(0)) {
      if (output.kind !== 'send' || output.peer !== peer) {
        this.#others.push(output)
        continue
      }
      for (const { cid, cancel, type } of output.message.wants) said.push(`${cancel ? 'cancel' : `want-${type}`} ${nameOf(cid)}`)
      for (const { cid, have } of output.message.presences) said.push(`${have ? 'have' : 'dont-have'} ${nameOf(cid)}`)
      for (const cid of output.blocks) said.push(`block ${nameOf(cid)}`)
    }
    this.outputs.push(...this.#others.splice(0))
    return said
  }
  readonly #others: Output[] = []

  drops(): Output[] {
    return this.outputs.filter(({ kind }) => kind === 'drop')
  }
}

const nameOf = (cid: Cid) => `${blocks.findIndex((each) => each.cid.key === cid.key)}`
const joined = (peer: PeerId, have: 'all' | 'some' | 'none'): Input => ({ kind: 'joined', peer, have })
const want = (...which: number[]): Input => ({
  kind: 'want',
  blocks: which.map((i) => ({ cid: block(i).cid, size: 2000, rank: 'leaf' })),
})
const sends = (peer: PeerId, ...sent: Block[]): Input => ({ kind: 'message', peer, message: nothing, blocks: sent, uncheckable: 0 })
const says = (peer: PeerId, have: boolean, ...which: number[]): Input => ({
  kind: 'message', peer, message: { ...nothing, presences: which.map((i) => ({ cid: block(i).cid, have })) }, blocks: [],
  uncheckable: 0,
})
const asks = (peer: PeerId, type: 'block' | 'have', which: number[], extra: { cancel?: boolean; silent?: boolean; full?: boolean } = {}): Input => ({
  kind: 'message',
  peer,
  message: {
    ...nothing,
    full: extra.full ?? false,
    wants: which.map((i) => ({
      cid: block(i).cid, type, cancel: extra.cancel ?? false, priority: 1, sendDontHave: !extra.silent,
    })),
  },
  blocks: [],
  uncheckable: 0,
})
const held = (i: number): Input => ({ kind: 'held', cid: block(i).cid, size: 2000 })

describe('a want', () => {
  it('goes to one of those who have it, and an interest in it to those who may get it', () => {
    const story = new Story().at(0, joined(alice, 'all'), joined(bob, 'none'), joined(carol, 'all'), want(1))
    expect([...story.said(alice), ...story.said(carol)]).toEqual(['want-block 1'])
    expect(story.said(bob)).toEqual(['want-have 1'])
  })

  it('that arrives is cancelled with everyone who was told, and served from then on', () => {
    const story = new Story().at(0, joined(alice, 'all'), joined(bob, 'some'), want(1))
    story.said(bob)
    story.at(1, asks(bob, 'block', [1]))
    story.at(2, sends(alice, block(1)))
    expect(story.said(bob)).toEqual(['dont-have 1', 'cancel 1', 'have 1'])
    expect(story.outputs).toContainEqual({ kind: 'arrived', peer: alice, ...block(1) })
  })

  it('answered with DONT_HAVE goes to another, and to no third who has not got it', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1), joined(bob, 'all'), joined(carol, 'none'))
    story.said(bob)
    story.at(1, says(alice, false, 1))
    expect(story.said(bob)).toEqual(['want-block 1'])
    story.said(alice)
    story.at(2, says(bob, false, 1))
    expect([...story.said(alice), ...story.said(carol).slice(1)]).toEqual([])
    story.at(3, says(carol, true, 1))
    expect(story.said(carol)).toEqual(['want-block 1'])
  })

  it('is a guess with those who have some, when nobody surely has it', () => {
    const story = new Story().at(0, joined(alice, 'some'), want(1))
    expect(story.said(alice)).toEqual(['want-block 1'])
  })

  it('goes to no more than the bound allows at a time', () => {
    const story = new Story({ blocksInFlightMax: 3 }).at(0, joined(alice, 'all'), want(1, 2, 3, 4, 5))
    expect(story.said(alice)).toEqual(['want-block 1', 'want-block 2', 'want-block 3'])
    story.at(1, sends(alice, block(2)))
    expect(story.said(alice)).toEqual(['want-block 4'])
    const small = new Story({ bytesInFlightMax: 4500 }).at(0, joined(alice, 'all'), want(1, 2, 3))
    expect(small.exchange.blocksInFlight).toBe(2)
    const tiny = new Story({ bytesInFlightMax: 10 }).at(0, joined(alice, 'all'), want(1, 2, 3))
    expect(tiny.exchange.blocksInFlight).toBe(1)
  })

  it('moves on after a second of silence, and back to whoever speaks again', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1, 2))
    story.at(100, joined(bob, 'all'))
    story.said(alice)
    expect(story.exchange.nextWake()).toBe(1000)
    story.at(999, { kind: 'tick' })
    expect(story.said(bob)).toEqual([])
    story.at(1000, { kind: 'tick' })
    expect(story.said(bob)).toEqual(['want-block 1', 'want-block 2'])
    expect(story.said(alice)).toEqual(['cancel 1', 'cancel 2'])
    expect(story.exchange.counts.silences).toBe(2)
  })

  it('stays while parts of it arrive', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1), joined(bob, 'all'))
    story.at(900, { kind: 'progress', peer: alice })
    story.at(1000, { kind: 'tick' })
    expect(story.exchange.nextWake()).toBe(1900)
    expect(story.exchange.counts.silences).toBe(0)
  })

  it('is repeated to a silent peer when there is no other, ever less often', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1))
    story.said(alice)
    const wakes: (number | null)[] = []
    const repeats: (number | null)[] = []
    for (let i = 0; i < 8; i++) {
      const wake = story.exchange.nextWake()
      wakes.push(wake)
      story.at(wake ?? 0, { kind: 'tick' })
      if (story.said(alice).includes('want-block 1')) repeats.push(wake)
    }
    expect(repeats).toEqual(wakes.slice(2))
    expect(wakes).toEqual([1000, 3000, 7000, 15_000, 31_000, 61_000, 91_000, 121_000])
  })

  it('of a peer that left goes to another', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1, 2), joined(bob, 'all'), { kind: 'left', peer: alice })
    expect(story.said(bob)).toEqual(['want-block 1', 'want-block 2'])
  })

  it('of an inner block comes before those of leaves', () => {
    const story = new Story({ blocksInFlightMax: 1 }).at(0, joined(alice, 'all'), want(1, 2))
    story.at(0, { kind: 'want', blocks: [{ cid: block(3).cid, size: null, rank: 'inner' }] })
    story.said(alice)
    story.at(1, sends(alice, block(1)))
    expect(story.said(alice)).toEqual(['want-block 3'])
  })
})

describe('a peer that has nothing to do', () => {
  it('takes over the last of what waits its turn with another', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1, 2, 3), joined(bob, 'some'))
    const waits = (pendingBytes: number): Input => ({
      kind: 'message', peer: alice, message: { ...nothing, pendingBytes }, blocks: [], uncheckable: 0,
    })
    story.at(1, says(bob, true, 2, 3), waits(4000))
    story.said(alice)
    expect(story.said(bob)).not.toContain('want-block 3')
    story.at(1500, waits(4000)).at(2000, waits(4000))
    expect(story.said(bob)).toEqual(['want-block 3'])
    expect(story.said(alice)).toEqual(['cancel 3'])
    expect(story.exchange.counts.relieves).toBe(1)
  })
})

describe('a peer', () => {
  it('that talks but gives nothing loses its wants after a while', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1))
    story.at(1, joined(bob, 'all'))
    for (let now = 500; now < 20_000; now += 500) story.at(now, says(alice, true), { kind: 'tick' })
    expect(story.said(bob)).toEqual([])
    story.at(20_000, { kind: 'tick' })
    expect(story.said(bob)).toEqual(['want-block 1'])
  })

  it('that sends other bytes than asked for is dropped, and its wants go elsewhere', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1), joined(bob, 'all'))
    story.at(1, sends(alice, block(9)))
    expect(story.drops()).toEqual([{ kind: 'drop', peer: alice, reason: 'lied' }])
    expect(story.exchange.counts.lies).toBe(1)
    expect(story.said(bob)).toEqual(['want-block 1'])
    expect(story.exchange.has(alice)).toBe(false)
  })

  it('that sends a block twice is no liar', () => {
    const story = new Story().at(0, joined(alice, 'all'), want(1, 2))
    story.at(1, sends(alice, block(1)), sends(alice, block(1)))
    expect(story.drops()).toEqual([])
    expect(story.exchange.counts.unwanted).toBe(1)
  })

  it('that goes on sending what nobody asked for is dropped', () => {
    const story = new Story({ unwantedMax: 5 }).at(0, joined(alice, 'none'))
    for (let i = 0; i < 5; i++) story.at(1, sends(alice, block(i)))
    expect(story.drops()).toEqual([])
    story.at(1, sends(alice, block(6)))
    expect(story.drops()).toEqual([{ kind: 'drop', peer: alice, reason: 'flooded' }])
    expect(story.outputs.filter(({ kind }) => kind === 'arrived')).toEqual([])
  })

  it('that cannot be understood is dropped', () => {
    const story = new Story().at(0, joined(alice, 'all'), { kind: 'malformed', peer: alice })
    expect(story.drops()).toEqual([{ kind: 'drop', peer: alice, reason: 'malformed' }])
  })

  it('beyond as many as we keep is not looked at', () => {
    const story = new Story({ peersMax: 2 }).at(0, joined(alice, 'all'), joined(bob, 'all'), joined(carol, 'all'))
    expect(story.exchange.has(carol)).toBe(false)
    story.at(1, asks(carol, 'block', [1]))
    expect(story.said(carol)).toEqual([])
  })
})

describe('a peer that asks', () => {
  it('gets the block, or hears that we have it, or that we do not', () => {
    const story = new Story().at(0, held(1), held(2), joined(alice, 'none'))
    story.at(1, asks(alice, 'block', [1]), asks(alice, 'have', [2]), asks(alice, 'block', [3]))
    expect(story.said(alice)).toEqual(['block 1', 'have 2', 'dont-have 3'])
    story.at(2, asks(alice, 'have', [4], { silent: true }))
    expect(story.said(alice)).toEqual([])
  })

  it('for what is not here hears of it when it arrives', () => {
    const story = new Story().at(0, joined(alice, 'none'), joined(bob, 'none'))
    story.at(1, asks(alice, 'block', [1]), asks(bob, 'have', [1]))
    expect([...story.said(alice), ...story.said(bob)]).toEqual(['dont-have 1', 'dont-have 1'])
    story.at(2, held(1))
    // Having heard no, it may well have asked elsewhere.
    expect([...story.said(alice), ...story.said(bob)]).toEqual(['have 1', 'have 1'])
    expect(story.at(3, held(1)).said(alice)).toEqual([])
  })

  it('and did not ask to hear no gets the block itself when it arrives', () => {
    const story = new Story().at(0, joined(alice, 'none'), asks(alice, 'block', [1], { silent: true }))
    expect(story.at(2, held(1)).said(alice)).toEqual(['block 1'])
  })

  it('for nothing at all gets it from everyone', () => {
    const empty = parseCid('bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku')
    const wants = [{ cid: empty, type: 'block', cancel: false, priority: 1, sendDontHave: true }] as const
    const message = { ...nothing, wants }
    const story = new Story().at(0, joined(alice, 'none'), { kind: 'message', peer: alice, message, blocks: [], uncheckable: 0 })
    expect(story.said(alice)).toEqual(['block -1'])
  })

  it('and takes it back is not served, nor one whose list is replaced', () => {
    const story = new Story().at(0, joined(alice, 'none'))
    story.at(1, asks(alice, 'block', [1, 2, 3]), asks(alice, 'block', [1], { cancel: true }))
    story.said(alice)
    story.at(2, held(1))
    expect(story.said(alice)).toEqual([])
    story.at(3, asks(alice, 'block', [3], { full: true }), held(2), held(3))
    expect(story.said(alice)).toEqual(['dont-have 3', 'have 3'])
  })

  it('for more than its ledger holds hears so', () => {
    const story = new Story({ ledgerMax: 3 }).at(0, joined(alice, 'none'), asks(alice, 'block', [1, 2, 3, 4], { silent: true }))
    story.at(1, asks(alice, 'block', [5]))
    expect(story.said(alice)).toEqual(['dont-have 5'])
    expect(story.exchange.counts.ledgerOverflows).toBe(2)
  })

  it('for a block that turns out to be gone hears so', () => {
    const story = new Story().at(0, held(1), joined(alice, 'none'), asks(alice, 'block', [1]))
    story.said(alice)
    story.at(1, { kind: 'lost', peer: alice, cid: block(1).cid })
    expect(story.said(alice)).toEqual(['dont-have 1'])
    expect(story.at(2, asks(alice, 'block', [1])).said(alice)).toEqual(['dont-have 1'])
  })

  it('waits its turn: one message a peer, in rounds', () => {
    const story = new Story({ messageBytesMax: 2000, sendingBytesMax: 4000 }, false)
    story.at(0, held(1), held(2), held(3), joined(alice, 'none'), joined(bob, 'none'), joined(carol, 'none'))
    for (const peer of [alice, bob, carol]) story.at(1, asks(peer, 'block', [1, 2, 3]))
    expect([story.said(alice), story.said(bob), story.said(carol)]).toEqual([['block 1'], ['block 1'], []])
    story.at(2, { kind: 'sent', peer: alice, lane: 'blocks' })
    expect([story.said(alice), story.said(carol)]).toEqual([[], ['block 1']])
    story.at(3, { kind: 'sent', peer: bob, lane: 'blocks' })
    expect([story.said(alice), story.said(bob)]).toEqual([['block 2'], []])
  })

  it('and has to wait hears at once and then twice a second that its turn will come', () => {
    const story = new Story({ messageBytesMax: 2000, sendingBytesMax: 2000 }, false)
    story.at(0, held(1), held(2), joined(alice, 'none'), joined(bob, 'none'))
    const pending = () =>
      story.outputs.splice(0).flatMap((output) => (output.kind === 'send' && output.lane === 'control' ? [output.message.pendingBytes] : []))
    story.at(1, asks(alice, 'block', [1]))
    story.at(2, asks(bob, 'block', [1, 2]))
    expect(pending()).toEqual([4000])
    story.at(3, { kind: 'sent', peer: bob, lane: 'control' })
    expect(story.exchange.nextWake()).toBe(501)
    story.at(502, { kind: 'tick' })
    // One to each: neither has its block yet.
    expect(pending()).toEqual([0, 4000])
  })

  it('hears how much more is queued for it', () => {
    const story = new Story({ messageBytesMax: 2000 }, false)
    story.at(0, held(1), held(2), held(3), joined(alice, 'none'), asks(alice, 'block', [1, 2, 3]))
    const sent = story.outputs.find(({ kind }) => kind === 'send')
    expect(sent).toMatchObject({ message: { pendingBytes: 4000 } })
  })
})

describe('a message on its way', () => {
  it('is followed by one that says all that came up meanwhile', () => {
    const story = new Story({}, false).at(0, joined(alice, 'none'), want(1))
    story.at(1, want(2), want(3))
    expect(story.said(alice)).toEqual(['want-have 1'])
    story.at(2, { kind: 'sent', peer: alice, lane: 'control' })
    expect(story.said(alice)).toEqual(['want-have 2', 'want-have 3'])
  })

  it('tells interest in no more blocks than a ledger takes', () => {
    const story = new Story({ interestMax: 100 }).at(0, joined(alice, 'none'), want(...Array.from({ length: 3000 }, (_, i) => i)))
    expect(story.said(alice)).toHaveLength(100)
    story.at(1, joined(bob, 'all'))
    for (let i = 0; i < 10; i++) story.at(2, sends(bob, block(i)))
    expect(story.said(alice).filter((word) => word.startsWith('want-have'))).toHaveLength(10)
  })
})

describe('random inputs', () => {
  it('never break it, and never make it ask for more than its bounds', () => {
    let state = 7
    const random = (below: number) => ((state = (state * 48_271) % 2_147_483_647) >> 4) % below
    const peers = [alice, bob, carol]
    for (let round = 0; round < 20; round++) {
      const story = new Story({ ledgerMax: 20, peersMax: 2, blocksInFlightMax: 4 })
      for (let now = 0; now < 400; now++) {
        const peer = peers[random(3)] ?? alice
        const some = Array.from({ length: 1 + random(5) }, () => random(60))
        const inputs: Input[] = [
          joined(peer, (['all', 'some', 'none'] as const)[random(3)] ?? 'none'),
          { kind: 'left', peer }, want(...some), held(random(60)), { kind: 'lost', peer, cid: block(random(60)).cid },
          sends(peer, block(random(60))), says(peer, random(2) === 0, ...some),
          asks(peer, random(2) === 0 ? 'block' : 'have', some, { cancel: random(4) === 0, full: random(9) === 0 }),
          { kind: 'progress', peer }, { kind: 'sent', peer, lane: random(2) === 0 ? 'control' : 'blocks' }, { kind: 'tick' },
        ]
        const input = inputs[random(inputs.length)]
        if (input !== undefined) story.at(now * 300, input)
        expect(story.exchange.blocksInFlight).toBeLessThanOrEqual(2 * 4)
      }
    }
  })
})
